/** Makes the topology that the options name: one server, the master that the sentinels name, or the nodes of a cluster. */
import { randomInt } from 'node:crypto'
import type { Redis } from 'ioredis'
import { TOGETHER } from './batches.ts'
import type { Calling, Held } from './batches.ts'
import { Cluster } from './cluster.ts'
import { CONNECTION_NAME, connectFound, connectUrl, reconnect, SUBSCRIBER_NAME } from './client.ts'
import { Sentinels } from './sentinels.ts'
import { Server, type LockOrder, type WriteOrder } from './server.ts'
import type { Topology, TopologyOptions } from './topology.ts'
import { addressText } from './topology-options.ts'
import type { SentinelAt } from './topology-options.ts'

/** Throws StartError for a URL that is none. */
export function connectTopology (options: TopologyOptions): Topology {
  const { sentinel, cluster } = options
  if (cluster !== undefined && cluster !== null) return new Cluster(cluster, options)
  if (sentinel !== undefined && sentinel !== null) return sentinelTopology(sentinel, options)
  const { url, tls = null, commandTimeoutMs } = options
  const connect = (name: string) => connectUrl(url ?? '', { tls, name, commandTimeoutMs })
  const server = serverOf(options, () => connect(CONNECTION_NAME))
  return new OneServer(server, () => connect(SUBSCRIBER_NAME), () => {})
}

/** A connection that a failover has left behind is known by what the sentinels say, or by a server that no longer serves. */
function sentinelTopology (sentinel: SentinelAt, options: TopologyOptions): Topology {
  const { username = null, password = null, database = 0, tls = null, commandTimeoutMs } = options
  const clients: Redis[] = []
  /** Each leaves the server that it is at, unless that is the master: most sentinels say so, and one after the other. */
  const lookAll: Array<() => void> = []
  const sentinels = new Sentinels(sentinel, () => { for (const look of lookAll) look() })
  const connect = (name: string) => {
    let at = ''
    const find = async () => {
      const master = await sentinels.master()
      at = addressText(master)
      return master
    }
    const client = connectFound(find, { username, password, database, tls, name, commandTimeoutMs })
    const look = () => { void sentinels.master().then((now) => { if (addressText(now) !== at) reconnect(client) }, () => {}) }
    clients.push(client)
    lookAll.push(look)
    // They may have named another one while it was on its way, and would not say so again.
    client.on('ready', look)
    return client
  }
  const leaveAll = () => { clients.forEach(reconnect) }
  const server = serverOf(options, () => connect(CONNECTION_NAME), leaveAll)
  return new OneServer(server, () => connect(SUBSCRIBER_NAME), () => { sentinels.close() })
}

function serverOf (
  { keyPrefix, commandTimeoutMs, onServer, log, meter }: TopologyOptions,
  connect: () => Redis,
  onRefusal: () => void = () => {}
): Server {
  const probe = `${keyPrefix}:probe:${randomInt(2 ** 32)}`
  return new Server({
    connect,
    batches: TOGETHER,
    commandTimeoutMs,
    probeKey: () => probe,
    log,
    meter,
    onChange: (open) => { meter?.breaker(open) },
    onServer,
    onRefusal
  })
}

class OneServer implements Topology {
  readonly #server: Server
  readonly #finally: () => void
  readonly subscribe: () => Redis

  constructor (server: Server, subscribe: () => Redis, andThen: () => void) {
    this.#server = server
    this.#finally = andThen
    this.subscribe = subscribe
  }

  // One server never says that a key is elsewhere (TOGETHER).
  lock (order: LockOrder): void { this.#server.lock(order) }

  write (order: WriteOrder): void { this.#server.write(order) }

  async renew (held: readonly Held[], ttlMs: number): Promise<void> { await this.#server.renew(held, ttlMs) }

  forget (key: string): Promise<boolean> { return this.#server.forget(key, false) as Promise<boolean> }

  call (calling: Calling): Promise<unknown> { return this.#server.call(calling) }

  available (): boolean { return this.#server.available() }

  idle (): boolean { return this.#server.idle }

  servers (): readonly Server[] { return [this.#server] }

  close (): void {
    this.#finally()
    this.#server.close()
  }
}
