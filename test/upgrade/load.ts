/**
 * What goes on while gateways are replaced: requests with keys and without, duplicates at once and later (steady-load.ts);
 * beside them senders of messages, each in an order of its own, and events with their duplicates. Nobody tries again:
 * whatever is not the answer that the protocol prescribes is written down as failed.
 */
import { randomUUID } from 'node:crypto'
import { eventually } from '../harness/eventually.ts'
import type { Answered } from '../e2e/balancer.ts'
import { SteadyLoad } from '../e2e/steady-load.ts'
import type { Entry } from './book.ts'
import { saidBy } from './world.ts'
import type { World } from './world.ts'

/** Enough that something is under way at every moment; the gateways' starts need the rest of two cores. */
const ASKING = 2
const SENDERS = 2
/** Between two requests of a sender. */
const PAUSE_MS = 150
/** So often a message is sent a second time. */
const TWICE_SHARE = 0.2
const DELIVERED_WITHIN_MS = 20_000
/** Of a kind: enough to know what went wrong. */
const TOLD_MAX = 5

export class Load {
  readonly requests: SteadyLoad
  readonly #world: World
  readonly #failures: string[] = []
  /** By group, in the order in which they were accepted. */
  readonly #accepted = new Map<string, string[]>()
  readonly #events: string[] = []
  readonly #clients: ReadonlyArray<Promise<void>>
  #stopped = false

  constructor (world: World) {
    this.#world = world
    const { ask: asked, markStores } = world
    this.requests = new SteadyLoad({ ask: async (ask) => asked({ path: '/hold/things', ...ask }) }, ASKING)
    this.#clients = [
      ...Array.from({ length: SENDERS }, async () => this.#repeat(async () => this.#message, randomUUID())),
      ...markStores.map(async (store) => this.#repeat(async () => this.#event, `drop-${store}`))
    ]
  }

  async begun (): Promise<void> {
    await eventually(() =>
      this.requests.answers.size > 0 &&
      this.#accepted.size === SENDERS &&
      this.#events.length > 0, 'the load has begun', DELIVERED_WITHIN_MS)
  }

  /** Not before one of the first release's has been asked for again. */
  async stop (): Promise<void> {
    await this.requests.oldest()
    this.#stopped = true
    await Promise.all([this.requests.stop(), ...this.#clients])
  }

  /** How many of what: for the line that a run ends with. */
  get counts (): string {
    const messages = Array.from(this.#accepted.values(), (keys) => keys.length).reduce((sum, each) => sum + each, 0)
    return `${this.requests.requests} requests, ${messages} messages, ${this.#events.length} events`
  }

  /** When it has stopped: sentences. `isCut`: nobody waits for what was not delivered yet. */
  async findings (isCut: boolean): Promise<string[]> {
    const failures = [...this.requests.failures.map(({ what, key, said }) => `${what} (${key}): ${said}`), ...this.#failures]
    return [...shortened(failures), ...this.#executedOnce(), ...await this.#delivered(isCut), ...this.#droppedOnce()]
  }

  async #repeat (turn: () => Promise<(name: string) => Promise<void>>, name: string): Promise<void> {
    while (!this.#stopped) {
      try {
        await (await turn())(name)
      } catch (error) {
        this.#failures.push(error instanceof Error ? error.message : String(error))
      }
      await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS) })
    }
  }

  readonly #message = async (group: string): Promise<void> => {
    const key = randomUUID()
    const send = async (): Promise<Answered> => this.#world.ask({ key, body: key, path: '/ordered/things', headers: { 'X-Group': group } })
    if (this.#expect(await send(), 202, 'accepted', `message ${key}`)) this.#accepted.set(group, [...this.#accepted.get(group) ?? [], key])
    if (Math.random() < TWICE_SHARE) this.#expect(await send(), 202, 'accepted', `message ${key} again`)
  }

  readonly #event = async (route: string): Promise<void> => {
    const key = randomUUID()
    const send = async (): Promise<Answered> => this.#world.ask({ key, body: key, path: `/${route}/things` })
    if (this.#expect(await send(), 201, 'executed', `event ${key} (${route})`)) this.#events.push(key)
    this.#expect(await send(), 200, 'duplicate', `event ${key} (${route}) again`)
  }

  #expect (answer: Answered, status: number, idempotency: string, what: string): boolean {
    const isRight = answer.status === status && answer.headers['idempotency-status'] === idempotency
    if (!isRight) this.#failures.push(`${what}: ${saidBy(answer)}`)
    return isRight
  }

  #executedOnce (): string[] {
    const wrong: string[] = []
    const counts = new Map<string, number>()
    for (const { body, target } of this.#world.book.entries) if (target === '/hold/things') counts.set(body, (counts.get(body) ?? 0) + 1)
    for (const asked of [...this.requests.answers.keys(), ...this.requests.keyless]) {
      if (counts.get(asked) !== 1) wrong.push(`request ${asked} was executed ${counts.get(asked) ?? 0} times`)
    }
    return shortened(wrong)
  }

  /** Everything that was accepted, once each, since its consumer always takes it; and each group in its order. */
  async #delivered (isCut: boolean): Promise<string[]> {
    const { book } = this.#world
    const groups = Array.from(this.#accepted.values())
    const all = groups.flat()
    const isDone = (): boolean => isCut || all.every((key) => book.of(key).some(({ status }) => status === 201))
    await eventually(isDone, 'all messages are delivered', DELIVERED_WITHIN_MS).catch(() => {})
    const wrong = groups.flatMap((keys) => keys.flatMap((key, index) => {
      const entries = book.of(key)
      const [first, ...more] = entries
      const isAgain = first !== undefined &&
        this.#wasCut(first, more[0], book.of(keys[index + 1] ?? '')[0]) &&
        more.length === 1 &&
        (more[0]?.attempt ?? 0) > first.attempt
      return (isCut && entries.length === 0) || (first?.status === 201 && (more.length === 0 || isAgain))
        ? []
        : [`message ${key} was delivered with ${JSON.stringify(entries.map(({ attempt, status }) => [attempt, status]))} as attempt and answer`]
    }))
    for (const [group, keys] of this.#accepted) {
      const seen = Array.from(new Set(book.entries.filter(({ key }) => keys.includes(key)).map(({ key }) => key)))
      const at = seen.findIndex((key, index) => key !== keys[index])
      if (at >= 0) wrong.push(`group ${group}: message ${seen[at]} was delivered in the place of ${keys[at]}`)
    }
    return shortened(wrong)
  }

  /** Taken by its consumer, and its gateway killed before it had written so: then nothing behind it in its group had begun. */
  #wasCut (first: Entry, again: Entry | undefined, next: Entry | undefined): boolean {
    const isBetween = (killed: number): boolean =>
      first.atMs <= killed && again !== undefined && again.atMs > killed && (next === undefined || next.atMs > killed)
    return this.#world.seats.some(({ killedAtMs }) => killedAtMs.some(isBetween))
  }

  #droppedOnce (): string[] {
    return shortened(this.#events.flatMap((key) => {
      const { length } = this.#world.book.of(key)
      return length === 1 ? [] : [`event ${key} went through ${length} times`]
    }))
  }
}

function shortened (findings: readonly string[]): string[] {
  return findings.length <= TOLD_MAX
    ? [...findings]
    : [...findings.slice(0, TOLD_MAX), `… and ${findings.length - TOLD_MAX} more like these`]
}
