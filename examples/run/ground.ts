/** The servers of examples. Each is started on first use, and shared by all examples of a run. */
import { startNats } from '../../test/harness/nats.ts'
import type { NatsServer } from '../../test/harness/nats.ts'
import { startPostgres } from '../../test/harness/postgres.ts'
import type { PostgresServer } from '../../test/harness/postgres.ts'
import { startRabbit } from '../../test/harness/rabbitmq.ts'
import type { RabbitServer } from '../../test/harness/rabbitmq.ts'
import { startRedis } from '../../test/harness/redis.ts'
import type { RedisServer } from '../../test/harness/redis.ts'

interface Server { readonly stop: () => Promise<void> }

export class Ground {
  readonly #started = new Map<() => Promise<Server>, Promise<Server>>()

  async postgres (): Promise<PostgresServer> { return this.#one(startPostgres) }
  async redis (): Promise<RedisServer> { return this.#one(startRedis) }
  async nats (): Promise<NatsServer> { return this.#one(startNats) }
  async rabbit (): Promise<RabbitServer> { return this.#one(startRabbit) }

  async clear (): Promise<void> {
    const started = Array.from(this.#started.values())
    this.#started.clear()
    for (const server of await Promise.allSettled(started)) if (server.status === 'fulfilled') await server.value.stop()
  }

  async #one<Kind extends Server> (start: () => Promise<Kind>): Promise<Kind> {
    const server = this.#started.get(start) ?? start()
    this.#started.set(start, server)
    return server as Promise<Kind>
  }
}
