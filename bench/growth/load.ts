/**
 * Clients that ask, time and check: in a closed loop (so many at a time) and in an open one (so many a second, whatever
 * becomes of them). Every answer is compared with what it must be; what differs is kept in words, never as a time.
 */
import { Pool } from 'undici'
import { answerOf, ANSWER_STATUS, PATH, REQUEST_BODY } from './thing.ts'

export type Expected = 'executed' | 'replayed'

export interface Sample {
  readonly expected: Expected
  /** Since the load began. */
  readonly atMs: number
  readonly ms: number
}

export interface Ask { readonly key: string, readonly expected: Expected }

const WRONG_KEPT = 10

export class Client {
  readonly wrong: string[] = []
  wrongCount = 0
  readonly #pool: Pool

  constructor (url: string, connections: number) {
    this.#pool = new Pool(url, { connections, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 })
  }

  /** How long it took, in milliseconds, to the last byte. */
  async ask ({ key, expected }: Ask): Promise<number> {
    const began = performance.now()
    try {
      const { statusCode, headers, body } = await this.#pool.request({
        method: 'POST',
        path: PATH,
        headers: { 'idempotency-key': key, 'content-type': 'application/json' },
        body: REQUEST_BODY
      })
      const text = await body.text()
      const tookMs = performance.now() - began
      const status = String(headers['idempotency-status'])
      if (statusCode !== ANSWER_STATUS || status !== expected) {
        this.note(`${key}: expected ${expected}, and it is ${statusCode} ${status} ${text.slice(0, 200)}`)
      } else if (text !== answerOf(key)) {
        this.note(`${key}: another body than its own: ${text.slice(0, 100)}`)
      }
      return tookMs
    } catch (error) {
      this.note(`${key}: ${error instanceof Error ? error.message : String(error)}`)
      return performance.now() - began
    }
  }

  note (what: string): void {
    this.wrongCount++
    if (this.wrong.length < WRONG_KEPT) this.wrong.push(what)
  }

  async close (): Promise<void> { await this.#pool.close() }
}

export interface Measured {
  readonly requests: number
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export async function closedLoop (client: Client, concurrency: number, ms: number, next: () => Ask): Promise<Measured> {
  const began = performance.now()
  const times: number[] = []
  const one = async (): Promise<void> => {
    while (performance.now() - began < ms) times.push(await client.ask(next()))
  }
  await Promise.all(Array.from({ length: concurrency }, one))
  return measured(times, performance.now() - began)
}

export function measured (times: readonly number[], tookMs: number): Measured {
  const sorted = Float64Array.from(times).sort()
  return {
    requests: sorted.length,
    perSecond: sorted.length / tookMs * 1_000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    maxMs: percentile(sorted, 1)
  }
}

/** Nearest rank; NaN of nothing. */
export function percentile (sorted: ArrayLike<number>, share: number): number {
  return sorted.length === 0 ? Number.NaN : sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] as number
}

/** Arrivals are spread evenly, not drawn: two runs have the same load. */
const TICK_MS = 1
/** More under way than this: the machine cannot do it, and nothing that is measured would mean anything. */
const UNDER_WAY_MAX = 5_000

export class OpenLoop {
  readonly samples: Sample[] = []
  readonly #client: Client
  readonly #everyMs: number
  readonly #next: () => Ask
  readonly #underWay = new Set<Promise<void>>()
  #beganMs = 0
  #sent = 0
  #timer: NodeJS.Timeout | null = null

  constructor (client: Client, rate: number, next: () => Ask) {
    this.#client = client
    this.#everyMs = 1_000 / rate
    this.#next = next
  }

  /** On the clock of {@link Sample.atMs}. */
  get nowMs (): number { return performance.now() - this.#beganMs }

  start (): void {
    this.#beganMs = performance.now()
    this.#timer = setInterval(() => { this.#tick() }, TICK_MS)
  }

  async stop (): Promise<void> {
    clearInterval(this.#timer ?? undefined)
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  between (fromMs: number, toMs: number): readonly Sample[] {
    return this.samples.filter(({ atMs }) => atMs >= fromMs && atMs < toMs)
  }

  #tick (): void {
    for (; this.#sent * this.#everyMs < this.nowMs; this.#sent++) {
      if (this.#underWay.size >= UNDER_WAY_MAX) this.#client.note('too many requests are under way: choose a lower rate')
      else this.#track(this.#send(this.#next()))
    }
  }

  async #send (ask: Ask): Promise<void> {
    const atMs = this.nowMs
    this.samples.push({ expected: ask.expected, atMs, ms: await this.#client.ask(ask) })
  }

  #track (work: Promise<void>): void {
    const tracked = work.finally(() => { this.#underWay.delete(tracked) })
    this.#underWay.add(tracked)
  }
}

/** New keys for ever; one per run, so that no part ever asks another's key. */
export class Numbers {
  #next = 0

  take (): number { return this.#next++ }
}
