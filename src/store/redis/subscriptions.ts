/**
 * Wake-ups between processes: one channel per watched record, on a connection of its own that is made with the first watch. A
 * wake-up is only a reason to look. A lost one costs a waiter the rest of its polling interval. After every reconnect all
 * watchers are woken, because wake-ups may have been lost meanwhile.
 */
import type { Redis } from 'ioredis'
import type { Cancel } from '../../ports/clock.ts'
import { isForbidden } from './client.ts'

export interface SubscriptionsOptions {
  /** Makes the connection for subscriptions. */
  readonly connect: () => Redis
  /** How long a watch waits for its subscription. After that only polling remains. */
  readonly subscribedWithinMs: number
  /** This user may not subscribe: only polling remains. */
  readonly onForbidden: (error: Error) => void
}

/** `waits`: its watch has been answered. Before that no wake-up is needed, because the caller looks once the watch stands. */
interface Watcher { readonly onWake: () => void, waits: boolean }

/**
 * `subscribed` resolves when the channel is subscribed. Each channel has its own promise, which goes with it: a shared one
 * would keep every past waiter.
 */
interface Channel { readonly watchers: Set<Watcher>, readonly subscribed: PromiseWithResolvers<void> }

/** Records watched at once: above the default limit on waiters, each of which watches one. At the bound only polling remains. */
const CHANNELS_MAX = 20_000

export class Subscriptions {
  readonly #options: SubscriptionsOptions
  readonly #channels = new Map<string, Channel>()
  #client: Redis | null = null
  #closed = false

  constructor (options: SubscriptionsOptions) {
    this.#options = options
  }

  /** Resolves when the subscription stands, or cannot be had in time. If Redis is known to be away, it resolves at once. */
  async watch (name: string, onWake: () => void, away: boolean): Promise<Cancel> {
    const watcher: Watcher = { onWake, waits: false }
    const channel = this.#channelOf(name)
    if (channel === null) return () => {}
    channel.watchers.add(watcher)
    if (!away) await within(this.#options.subscribedWithinMs, channel.subscribed.promise)
    watcher.waits = true
    return () => { this.#cancel(name, channel, watcher) }
  }

  close (): void {
    this.#closed = true
    this.#channels.clear()
    this.#client?.disconnect()
  }

  #channelOf (name: string): Channel | null {
    const known = this.#channels.get(name)
    if (known !== undefined) return known
    if (this.#closed || this.#channels.size >= CHANNELS_MAX) return null
    const channel: Channel = { watchers: new Set(), subscribed: Promise.withResolvers() }
    this.#channels.set(name, channel)
    const client = this.#client ??= this.#connect()
    if (client.status === 'ready') void this.#subscribe(client, [name]).then(channel.subscribed.resolve)
    return channel
  }

  #connect (): Redis {
    const client = this.#options.connect()
    client.on('error', () => {})
    client.on('ready', () => { void this.#subscribeAll(client) })
    client.on('message', (name: string) => { this.#wake(name) })
    return client
  }

  async #subscribeAll (client: Redis): Promise<void> {
    const names = [...this.#channels.keys()]
    if (names.length > 0) await this.#subscribe(client, names)
    for (const name of names) {
      this.#channels.get(name)?.subscribed.resolve()
      this.#wake(name)
    }
  }

  /** Never rejects: what could not be subscribed is subscribed with the next connection. */
  async #subscribe (client: Redis, names: string[]): Promise<void> {
    await client.subscribe(...names).catch((error: unknown) => { if (isForbidden(error)) this.#options.onForbidden(error) })
  }

  #wake (name: string): void {
    for (const watcher of [...this.#channels.get(name)?.watchers ?? []]) {
      if (watcher.waits) watcher.onWake()
    }
  }

  #cancel (name: string, channel: Channel, watcher: Watcher): void {
    channel.watchers.delete(watcher)
    if (channel.watchers.size > 0 || this.#channels.get(name) !== channel) return
    this.#channels.delete(name)
    this.#client?.unsubscribe(name).catch(() => {})
  }
}

async function within (ms: number, subscribed: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => { timer = setTimeout(resolve, ms) })
  await Promise.race([subscribed, late])
  clearTimeout(timer)
}
