/** Clients that retry, an upstream that counts, and what is wrong if a key was executed twice. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { slotOf } from '../../src/core/cells/cells.ts'
import { Asker } from './cells.ts'
import type { Ending } from './world.ts'

const FAST_MS = 5
/** One execution in ten, so that some are in flight whenever a gateway ends. */
const SLOW_MS = 400
const SLOW_EVERY = 10
/** One key in fifteen: the upstream executes it, and its answer is lost. */
const LOST_EVERY = 15
const LOST = 'lost-'
const PAUSE_MS = 100
const PAUSE_MS_MAX = 2_000
/** A client gives up, and comes back at the end. */
const TRIES_MAX = 60
/** Old keys that are asked for again, for each new one. */
const REVISITS = 2
const AT_ONCE_AT_THE_END = 24

export interface Counting { readonly url: string, readonly executions: ReadonlyMap<string, number> }

/** Its answer differs for each execution, so that only a replay can repeat it. Keys come quoted or bare. */
export async function startCounting (ending: Ending): Promise<Counting> {
  const executions = new Map<string, number>()
  let count = 0
  const server = createServer((request, response) => {
    const key = String(request.headers['idempotency-key']).replaceAll('"', '')
    executions.set(key, (executions.get(key) ?? 0) + 1)
    const number = ++count
    request.resume()
    if (key.startsWith(LOST)) return request.socket.destroy()
    setTimeout(() => { response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify({ number, key })) },
      number % SLOW_EVERY === 0 ? SLOW_MS : FAST_MS)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  ending.after(async () => { server.closeAllConnections(); server.close(); await Promise.resolve() })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, executions }
}

export interface Told {
  readonly atMs: number
  readonly slot: number
  readonly key: string
  readonly status: number
  readonly body: string
  readonly replayed: boolean
}

export class Clients {
  readonly told: Told[] = []
  readonly #askers: readonly Asker[]
  readonly #keysPerSecond: number
  readonly #keys: string[] = []
  readonly #running = new Set<Promise<void>>()
  #open = true
  #coming: Promise<void> | null = null

  /** `ports`: of the proxies. Each request takes another one. */
  constructor (ports: readonly number[], keysPerSecond: number) {
    this.#askers = ports.map((port) => new Asker(port))
    this.#keysPerSecond = keysPerSecond
  }

  get keys (): readonly string[] { return this.#keys }

  start (): void { this.#coming = this.#come() }

  /** Ends what {@link finish} has not. */
  stop (): void {
    this.#open = false
    for (const asker of this.#askers) asker.close()
  }

  /** No new keys. All old ones are asked for once more. */
  async finish (): Promise<void> {
    this.#open = false
    await this.#coming
    await Promise.all(this.#running)
    const left = this.#keys.slice()
    await Promise.all(Array.from({ length: AT_ONCE_AT_THE_END }, async () => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) await this.#persist(key)
    }))
    this.stop()
  }

  async #come (): Promise<void> {
    for (let number = 0; this.#open; number++) {
      const key = `${number % LOST_EVERY === 1 ? LOST : 'order-'}${number}`
      this.#keys.push(key)
      // Two clients have every third key at once.
      this.#begin(this.#persist(key))
      if (number % 3 === 0) this.#begin(this.#persist(key))
      for (let revisits = 0; revisits < REVISITS; revisits++) {
        this.#begin(this.#ask(this.#keys[Math.floor(Math.random() * this.#keys.length)] as string).then(() => {}))
      }
      await sleep(1_000 / this.#keysPerSecond)
    }
  }

  #begin (work: Promise<void>): void {
    const running = work.finally(() => { this.#running.delete(running) })
    this.#running.add(running)
  }

  async #persist (key: string): Promise<void> {
    for (let tries = 0; tries < TRIES_MAX; tries++) {
      const { status, body } = await this.#ask(key)
      if (status === 201 || body.includes('outcome-unknown')) return
      await sleep(Math.min(PAUSE_MS_MAX, PAUSE_MS * (tries + 1)))
    }
  }

  async #ask (key: string): Promise<Told> {
    const asker = this.#askers[Math.floor(Math.random() * this.#askers.length)] as Asker
    const spelled = Math.random() < 0.5 ? key : `"${key}"`
    const { status, headers, body } = await asker.ask(['Idempotency-Key', spelled])
    const told = {
      atMs: performance.now(), slot: slotOf(Buffer.from(key)), key, status, body, replayed: headers['idempotency-status'] === 'replayed'
    }
    this.told.push(told)
    return told
  }
}

export interface Judgement {
  readonly keys: number
  readonly requests: number
  readonly replays: number
  readonly refused: number
  readonly unknown: number
  readonly violations: readonly string[]
}

/** `mayBeUnknown`: a gateway was killed. */
export function judge ({ keys, told }: Clients, executions: Counting['executions'], mayBeUnknown: boolean): Judgement {
  const violations: string[] = []
  const unknown = new Set(told.filter(({ body }) => body.includes('outcome-unknown')).map(({ key }) => key))
  const byKey = Map.groupBy(told, ({ key }) => key)
  for (const key of keys) {
    const executed = executions.get(key) ?? 0
    if (executed > 1) violations.push(`${key} was executed ${executed} times`)
    const answers = byKey.get(key) ?? []
    const bodies = new Set(answers.filter(({ status }) => status === 201).map(({ body }) => body))
    if (bodies.size > 1) violations.push(`${key} has ${bodies.size} answers: ${Array.from(bodies).join(' ')}`)
    if (bodies.size === 0 && !unknown.has(key)) violations.push(`${key} has no answer, the last is ${answers.at(-1)?.status}`)
    if (bodies.size > 0 && executed === 0) violations.push(`${key} has an answer and was not executed`)
    if (key.startsWith(LOST)) {
      if (bodies.size > 0) violations.push(`${key} has an answer, which was lost`)
    } else if (unknown.has(key) && !mayBeUnknown) violations.push(`${key} is unknown, and no gateway was killed`)
  }
  return {
    keys: keys.length,
    requests: told.length,
    replays: told.filter(({ replayed }) => replayed).length,
    refused: told.filter(({ status }) => status === 503).length,
    unknown: unknown.size,
    violations
  }
}

/** The longest time between two answers 201 to keys of these slots, in seconds. */
export function secondsWithout (told: readonly Told[], [from, to]: readonly [number, number]): number {
  const times = told.filter(({ slot, status }) => status === 201 && from <= slot && slot <= to)
    .map(({ atMs }) => atMs).toSorted((a, b) => a - b)
  return times.reduce((longest, at, index) => Math.max(longest, at - (times[index - 1] ?? at)), 0) / 1_000
}
