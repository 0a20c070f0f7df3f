/**
 * Redis Cluster: every master is a server with its own breaker and batches. If one is gone or slow, only the records of its
 * slots lose their fast path. Any node says which node has which slot. A node that is asked for a foreign key says where the
 * key is. That command was not done there, and is sent on. Nothing else is ever sent again.
 */
import type { Redis } from 'ioredis'
import { errorText } from '../../ports/errors.ts'
import { APART } from './batches.ts'
import type { Calling, Held } from './batches.ts'
import { CONNECTION_NAME, connectFound, connectTo, reconnect, SUBSCRIBER_NAME } from './client.ts'
import type { ClientOptions } from './client.ts'
import { lockingAt, LockThere, writeAt, WriteThere } from './hops.ts'
import { findNothing, Server, type LockOrder, type RecordOrder, type WriteOrder } from './server.ts'
import { Elsewhere, rangesOf, SLOTS, slotOf } from './slots.ts'
import type { Range } from './slots.ts'
import type { Topology, TopologyOptions } from './topology.ts'
import { addressText } from './topology-options.ts'
import type { Address } from './topology-options.ts'

/** MOVED by an old map, and ASK in the middle of a move. A third reply of this kind means that no node knows. */
const HOPS_MAX = 2
/** How old the map may get while all is well. A move of slots shows by itself. */
const LOOK_EVERY_MS = 10_000
/** While a master is away or a slot has none. Another may take its place any moment. */
const LOOK_AGAIN_MS = 1_000
/** After an unexpected change. Several of them within that time count as one. */
const LOOK_SOON_MS = 50
/** As many as Redis Cluster is made for. Nodes beyond this number are not used. */
const NODES_MAX = 1_000
/** Names to try for a probe key. If a node has a single slot, one name in 16384 is in it. */
const PROBE_NAMES_MAX = 8 * SLOTS

export class Cluster implements Topology {
  readonly #seeds: readonly Address[]
  readonly #options: TopologyOptions
  readonly #servers = new Map<string, { readonly server: Server, readonly address: Address, probe: string | null, evicts: boolean }>()
  /** The same as a list, because every request asks for it. */
  #all: readonly Server[] = []
  #slots: Array<Server | undefined> = []
  readonly #finder: Redis
  /** The node that is asked for the map, and the connection that gets wake-ups. */
  #finderAt: Address | null = null
  #subscriber: { readonly client: Redis, readonly at: () => Address | null } | null = null
  #seed = 0
  #epoch = 0
  /** Maps in a row that were older than one that was seen before. */
  #outdated = 0
  #looking = false
  #timer: NodeJS.Timeout | null = null
  #dueAtMs = 0
  #begun = false
  #degraded = true
  #loggedMap = false
  #closed = false

  constructor (seeds: readonly Address[], options: TopologyOptions) {
    this.#seeds = seeds
    this.#options = options
    this.#finder = connectFound(async () => (this.#finderAt = this.#another(this.#finderAt)), this.#clientOptions('onceway-cluster-map'))
    this.#finder.on('error', (error) => { this.#noMap(error.message) })
    this.#finder.on('ready', () => { void this.#look() })
  }

  lock (order: LockOrder): void {
    const server = this.#slots[slotOf(order.key)]
    if (server === undefined) process.nextTick(findNothing, order)
    else server.lock(new LockThere(order, server, this.#followLock))
  }

  write (order: WriteOrder): void {
    if (order.kind === 'record') {
      const server = this.#slots[slotOf(order.key)]
      if (server === undefined) order.done(false)
      else server.write(new WriteThere(order, server, this.#followWrite))
      return
    }
    // Every node passes a wake-up on to all others.
    const server = this.#available(this.#slots[slotOf(order.channel)]) ?? this.#all.find((any) => any.available())
    if (server === undefined) order.done(false)
    else server.write(order)
  }

  async renew (held: readonly Held[], ttlMs: number): Promise<void> {
    const groups = Map.groupBy(held, ({ key }) => this.#slots[slotOf(key)])
    await Promise.all(Array.from(groups, async ([server, those]) => {
      const places = await server?.renew(those, ttlMs) ?? []
      await Promise.all(places.map(async (place, at) => {
        const one = those[at]
        if (place === null || one === undefined || server === undefined) return
        await this.#hop(place, server, null, async (there, asking) => (await there.renew([{ ...one, asking }], ttlMs))[0] ?? null, 1)
      }))
    }))
  }

  async forget (key: string): Promise<boolean> {
    return this.#follow(key, false, (server, asking) => server.forget(key, asking))
  }

  async call (calling: Calling): Promise<unknown> {
    return this.#follow<unknown>(calling.key, undefined, (server, asking) => server.call({ ...calling, asking }))
  }

  /** At first not before every master of the map has been tried. So a caller that waits for Redis finds all of it. */
  available (): boolean {
    if (this.#closed) return false
    const servers = this.#all
    this.#begun ||= servers.length > 0 && servers.every(({ decided }) => decided)
    return this.#begun && servers.some((server) => server.available())
  }

  idle (): boolean { return this.#all.every(({ idle }) => idle) }

  subscribe (): Redis {
    let at: Address | null = null
    const client = connectFound(async () => (at = this.#another(at)), this.#clientOptions(SUBSCRIBER_NAME))
    this.#subscriber = { client, at: () => at }
    return client
  }

  servers (): readonly Server[] { return this.#all }

  close (): void {
    this.#closed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#finder.disconnect()
    for (const { server } of this.#servers.values()) server.close()
  }

  // -------------------------------------------------------------- where a key is

  readonly #followLock = async (order: LockOrder, place: Elsewhere, from: Server): Promise<void> => {
    order.found(await this.#hop<Buffer | null | undefined>(
      place,
      from,
      undefined,
      (server, asking) => new Promise((resolve) => { server.lock(lockingAt(order, asking, resolve)) }),
      1
    ))
  }

  readonly #followWrite = async (order: RecordOrder, place: Elsewhere, from: Server): Promise<void> => {
    order.done(await this.#hop<boolean>(
      place,
      from,
      false,
      (server, asking) => new Promise((resolve) => { server.write(writeAt(order, asking, resolve)) }),
      1
    ))
  }

  async #follow<Reply> (key: string, none: Reply, ask: (server: Server, asking: boolean) => Promise<Reply | Elsewhere>): Promise<Reply> {
    const server = this.#slots[slotOf(key)]
    if (server === undefined) return none
    const reply = await ask(server, false)
    return reply instanceof Elsewhere ? this.#hop(reply, server, none, ask, 1) : reply
  }

  async #hop<Reply> (
    place: Elsewhere,
    from: Server,
    none: Reply,
    ask: (server: Server, asking: boolean) => Promise<Reply | Elsewhere>,
    hops: number
  ): Promise<Reply> {
    const server = this.#serverAt(place, from)
    // A node reports a move of slots for one key at a time. The map then says the rest.
    if (!place.asking && server !== undefined) {
      this.#slots[place.slot] = server
      this.#lookWithin(LOOK_SOON_MS)
    }
    if (server === undefined || hops > HOPS_MAX) return none
    const reply = await ask(server, place.asking)
    return reply instanceof Elsewhere ? this.#hop(reply, server, none, ask, hops + 1) : reply
  }

  #serverAt ({ address }: Elsewhere, from: Server): Server | undefined {
    if (address.host !== '') return this.#serverOf(address)
    const here = Array.from(this.#servers.values()).find(({ server }) => server === from)
    return here === undefined ? undefined : this.#serverOf({ ...address, host: here.address.host })
  }

  #serverOf (address: Address): Server | undefined {
    const node = addressText(address)
    const known = this.#servers.get(node)
    if (known !== undefined || this.#closed || this.#servers.size >= NODES_MAX) return known?.server
    const { commandTimeoutMs, log, meter } = this.#options
    const server: Server = new Server({
      connect: () => connectTo(address, this.#clientOptions(CONNECTION_NAME)),
      batches: APART,
      commandTimeoutMs,
      probeKey: () => this.#probeKey(node),
      node,
      log,
      meter,
      onChange: (open) => { this.#changed(address, open) },
      onServer: ({ evicts }) => { this.#onServer(node, evicts) }
    })
    this.#servers.set(node, { server, address, probe: null, evicts: false })
    this.#all = [...this.#all, server]
    return server
  }

  /** A name in one of the node's own slots. */
  #probeKey (node: string): string | null {
    const entry = this.#servers.get(node)
    if (entry === undefined) return null
    const own = (name: string) => this.#slots[slotOf(name)] === entry.server
    if (entry.probe !== null && own(entry.probe)) return entry.probe
    entry.probe = null
    if (!this.#slots.includes(entry.server)) return null
    for (let number = 0; number < PROBE_NAMES_MAX; number++) {
      const name = `${this.#options.keyPrefix}:probe:{${number}}`
      if (own(name)) return (entry.probe = name)
    }
    return null
  }

  // -------------------------------------------------------------- the map

  async #look (): Promise<void> {
    if (this.#looking || this.#closed || this.#finder.status !== 'ready') return
    this.#looking = true
    try {
      const [info, slots] = await Promise.all([this.#finder.call('CLUSTER', 'INFO'), this.#finder.call('CLUSTER', 'SLOTS')])
      const epoch = Number(/cluster_current_epoch:([0-9]+)/.exec(String(info))?.[1] ?? 0)
      if (this.#believes(epoch)) this.#learn(rangesOf(slots, this.#finderAt?.host ?? ''))
    } catch (error) {
      this.#noMap(errorText(error))
      reconnect(this.#finder)
    } finally {
      this.#looking = false
      this.#lookWithin(this.#whole() ? LOOK_EVERY_MS : LOOK_AGAIN_MS)
    }
  }

  /** A node that is cut off has an old map. If all of them have an old one, the cluster is another one. */
  #believes (epoch: number): boolean {
    this.#outdated = epoch < this.#epoch ? this.#outdated + 1 : 0
    const believes = this.#outdated === 0 || this.#outdated > this.#servers.size
    if (believes) this.#epoch = epoch
    return believes
  }

  #learn (ranges: readonly Range[]): void {
    if (ranges.length === 0) return this.#noMap('no node has any slots')
    const slots: Array<Server | undefined> = Array.from({ length: SLOTS })
    for (const { from, to, host, port } of ranges) slots.fill(this.#serverOf({ host, port }), from, to + 1)
    this.#slots = slots
    const masters = new Set(slots)
    for (const [node, { server, evicts }] of this.#servers) {
      if (masters.has(server)) continue
      this.#servers.delete(node)
      if (evicts) this.#reportEviction()
      this.#all = this.#all.filter((other) => other !== server)
      server.close()
    }
    this.#loggedMap = false
    this.#reportDegraded()
  }

  #whole (): boolean {
    return this.#slots.length === SLOTS && !this.#slots.includes(undefined) && this.#all.every((server) => server.available())
  }

  #lookWithin (ms: number): void {
    const dueAtMs = performance.now() + ms
    if (this.#closed || (this.#timer !== null && this.#dueAtMs <= dueAtMs)) return
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#dueAtMs = dueAtMs
    this.#timer = setTimeout(() => {
      this.#timer = null
      if (this.#whole()) void this.#look()
      else {
        // The map itself may be wrong. So another node is asked, as soon as it is reached.
        reconnect(this.#finder)
        this.#lookWithin(LOOK_AGAIN_MS)
      }
    }, ms).unref()
  }

  // -------------------------------------------------------------- who is there

  #changed ({ host, port }: Address, open: boolean): void {
    this.#reportDegraded()
    if (!open) return
    this.#lookWithin(LOOK_SOON_MS)
    const at = this.#subscriber?.at() ?? null
    // A node that hangs or is cut off would keep the subscriptions and send nothing.
    if (this.#subscriber !== null && at?.host === host && at.port === port) reconnect(this.#subscriber.client)
  }

  #onServer (node: string, evicts: boolean): void {
    const entry = this.#servers.get(node)
    if (entry === undefined) return
    entry.evicts = evicts
    this.#reportEviction()
  }

  /** One node that evicts is enough. */
  #reportEviction (): void {
    this.#options.onServer?.({ evicts: Array.from(this.#servers.values()).some(({ evicts }) => evicts) })
  }

  /** The gauge: some records go without Redis. */
  #reportDegraded (): void {
    const degraded = this.#all.some((server) => !server.available())
    if (degraded === this.#degraded || this.#closed) return
    this.#degraded = degraded
    this.#options.meter?.breaker(degraded)
  }

  #noMap (error: string): void {
    // While some nodes serve, each node that does not serve logs it itself.
    if (this.#loggedMap || this.available()) return
    this.#loggedMap = true
    this.#options.log.warn({ event: 'redis-unreachable', error }, 'Redis cannot be reached: going on with the database alone')
  }

  /**
   * The node to ask about the whole cluster, if possible another one than `last`. Masters that serve come first, then any
   * node that was named.
   */
  #another (last: Address | null): Address {
    const serving = Array.from(this.#servers.values()).filter(({ server }) => server.available()).map(({ address }) => address)
    const nodes = serving.length > 0 ? serving : [...this.#seeds, ...Array.from(this.#servers.values(), ({ address }) => address)]
    const others = nodes.filter((node) => last === null || addressText(node) !== addressText(last))
    const among = others.length > 0 ? others : nodes
    return among[this.#seed++ % among.length] as Address
  }

  #available (server: Server | undefined): Server | undefined { return server?.available() === true ? server : undefined }

  #clientOptions (name: string): ClientOptions {
    const { username = null, password = null, tls = null, commandTimeoutMs } = this.#options
    return { username, password, tls, name, commandTimeoutMs }
  }
}
