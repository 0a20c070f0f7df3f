/** Clients that ask for something all the time: new keys and some old ones, on a route of each mode. */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Called } from '../harness/call.ts'
import type { Sent, World } from './world.ts'

const CLIENTS = 4
/** Some fifty requests a second: far from what two cores can do, and enough for a share of a hundred of them. */
const PAUSE_MS = 60

/** What each turn of a client asks for. Of the requests with a key on `charges` one in six or seven is a duplicate. */
const TURNS = [
  'new', 'new', 'retry', 'new', 'hook', 'new', 'event', 'new', 'order', 'new', 'repeated event', 'twice', 'brief', 'no key', 'unguarded'
] as const

export class Load {
  /** What no client should get. */
  readonly failures: string[] = []
  requests = 0
  readonly #world: World
  readonly #clients: ReadonlyArray<Promise<void>>
  #stopped = false

  constructor (world: World) {
    this.#world = world
    this.#clients = Array.from({ length: CLIENTS }, async (_, client) => this.#client(client))
  }

  async stop (): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#clients)
  }

  async #client (client: number): Promise<void> {
    const before = { charge: randomUUID() as string, event: randomUUID() as string }
    for (let turn = client * CLIENTS; !this.#stopped; turn++) {
      const what = TURNS[turn % TURNS.length] ?? 'new'
      const key = what === 'retry' ? before.charge : what === 'repeated event' ? before.event : randomUUID()
      await this.#turn(what, key, turn % 4 < 2)
      if (what === 'new') before.charge = key
      if (what === 'event') before.event = key
      await sleep(PAUSE_MS)
    }
  }

  async #turn (what: typeof TURNS[number], key: string, atFirst: boolean): Promise<void> {
    switch (what) {
      case 'new':
      case 'retry': return this.#ask(atFirst, '/charges', { key })
      case 'twice': await Promise.all([true, false].map(async (first) => this.#ask(first, '/charges', { key }))); return
      case 'brief': return this.#ask(atFirst, '/brief', { key })
      case 'hook': return this.#ask(atFirst, '/hooks', { key })
      case 'event':
      case 'repeated event': return this.#ask(atFirst, '/events', { key })
      case 'order': return this.#ask(atFirst, '/orders', { key })
      case 'no key': return this.#ask(atFirst, '/charges', {})
      case 'unguarded': return this.#ask(atFirst, '/elsewhere', { method: 'GET' })
    }
  }

  async #ask (atFirst: boolean, path: string, sent: Sent): Promise<void> {
    this.requests++
    const { one, two, ask } = this.#world
    const said = await ask(atFirst ? one : two, path, sent).then(failureOf, String)
    if (said !== null) this.failures.push(`${path}: ${said}`)
  }
}

function failureOf ({ status, text }: Called): string | null {
  return status < 300 ? null : `${status} ${text}`
}
