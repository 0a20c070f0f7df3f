import { connect } from 'amqplib'
import { duplicatesAt } from './door.ts'
import type { Example } from './example.ts'
import { judge } from './judge.ts'
import { killUntilFinished } from './killer.ts'

/** So many more executions between two kills of the relay, at least and at most. */
const BETWEEN_KILLS = [100, 500] as const

export const rabbitmq: Example = async ({ stage, size, random }) => {
  const [server, consumer] = await Promise.all([stage.rabbit(), stage.consumer()])
  const gateway = await stage.gateway('rabbitmq', { ONCEWAY_UPSTREAMS_CONSUMER_URL: consumer.url })
  const publisher = await stage.program('rabbitmq/publisher.ts', { AMQP_URL: server.url, EVENTS: String(size) })
  const relay = await stage.program('rabbitmq/relay.ts', { AMQP_URL: server.url, GATEWAY_URL: gateway.url })
  const connection = await connect(server.url)
  stage.after(async () => connection.close())
  const channel = await connection.createChannel()

  const empty = async () => (await channel.checkQueue('events')).messageCount === 0
  const finished = async () => {
    relay.check()
    if (!publisher.ended || !await empty()) return false
    // What the relay has taken and not acknowledged is not counted: it finishes that, or it comes back.
    await relay.stop()
    if (await empty()) return true
    await relay.start()
    return false
  }
  const kills = await killUntilFinished({ random, progress: () => consumer.ledger.count(), between: BETWEEN_KILLS, strike: async () => relay.restart(), finished })

  const events = Array.from({ length: size }, (_, number) => `event-${number}`)
  return judge(events, consumer.ledger.all(), await duplicatesAt(gateway), [`RabbitMQ ${server.version}`, `relay killed ${kills} times`])
}
