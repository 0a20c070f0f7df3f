/**
 * A steady load, whatever becomes of it: so many requests a second, a tenth of them duplicates (half of them at the same
 * time, half later), a hundredth given up in mid-flight and asked again. Every answer is compared with what it must be.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'undici'
import { KEY_PREFIX } from './upstream.ts'
import type { SoakUpstream } from './upstream.ts'

export interface LoadOptions {
  readonly gateways: readonly string[]
  readonly upstream: SoakUpstream
  /** Requests a second, duplicates included. */
  readonly rate: number
  readonly keysMax: number
  /** A retry comes this much later at most; within the retention. */
  readonly laterMs: number
  /** From its execution on a key is remembered for so long at least. */
  readonly retentionMs: number
}

export interface LoadCounts {
  requests: number
  keys: number
  replays: number
  disconnects: number
  /** A duplicate that was told to come back, and did. */
  inFlight: number
  /** Asked again in time, and answered after the key may have been forgotten: by a machine that stood still meanwhile. */
  late: number
  /** 503: not sent, and asked again. */
  refused: number
}

const DUPLICATES_SHARE = 0.1
const DISCONNECTS_SHARE = 0.01
const TICK_MS = 10
/** After that the client is gone; the upstream takes up to 25 ms. */
const DISCONNECT_MS_MAX = 20
/** More than this many under way: the load is more than the machine can do, and nothing is judged. */
const UNDER_WAY_MAX = 2_000
const WRONG_KEPT = 20
/** Of each gateway's clients, by requests a second: what a machine that stood still has to catch up with is no leak of sockets. */
const CONNECTIONS_PER_RATE = 1 / 4
const CONNECTIONS_MIN = 16
const CONNECTIONS_MAX = 128
/** Between two tries of somebody who was told that the first one is in flight. */
const COME_BACK_MS = 200
const TRIES_MAX = 50
/** To each gateway before the load: its connections are open, and its code is warm. */
const WARM_UP = 16

export class SoakLoad {
  readonly counts: LoadCounts = { requests: 0, keys: 0, replays: 0, disconnects: 0, inFlight: 0, late: 0, refused: 0 }
  /** The first ones of each kind; {@link wrongCount} counts all. */
  readonly wrongAnswers: string[] = []
  readonly wrongExecutions: string[] = []
  wrongCount = 0
  readonly #options: LoadOptions
  readonly #pools: readonly Pool[]
  readonly #underWay = new Set<Promise<void>>()
  /** Keys whose second execution is no wonder. */
  readonly #late = new Set<number>()
  #timer: NodeJS.Timeout | null = null
  #sentUntilMs = 0
  #turn = 0

  constructor (options: LoadOptions) {
    this.#options = options
    const connections = Math.min(CONNECTIONS_MAX, Math.max(CONNECTIONS_MIN, Math.ceil(options.rate * CONNECTIONS_PER_RATE)))
    this.#pools = options.gateways.map((url) => new Pool(url, { connections }))
  }

  /** What a gateway does not take yet comes again, as its problem says that it may. */
  async warmUp (): Promise<void> {
    await Promise.all(Array.from({ length: WARM_UP * this.#pools.length }, async () => this.#untilTaken(this.counts.keys++)))
  }

  start (): void {
    this.#sentUntilMs = performance.now()
    this.#timer = setInterval(() => { this.#tick() }, TICK_MS)
  }

  /** No new keys; what is under way, and every retry that was promised, runs to its end. */
  async stop (): Promise<void> {
    clearInterval(this.#timer ?? undefined)
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
    await Promise.all(this.#pools.map(async (pool) => pool.close()))
    this.#countExecutions()
  }

  #tick (): void {
    const { rate, keysMax } = this.#options
    const everyMs = 1_000 / (rate * (1 - DUPLICATES_SHARE - DISCONNECTS_SHARE))
    for (; this.#sentUntilMs < performance.now(); this.#sentUntilMs += everyMs) {
      if (this.counts.keys >= keysMax) return
      if (this.#underWay.size >= UNDER_WAY_MAX) this.#note('too many requests are under way: choose a lower rate')
      else this.#track(this.#begin(this.counts.keys++))
    }
  }

  #track (work: Promise<void>): void {
    const tracked = work.finally(() => { this.#underWay.delete(tracked) })
    this.#underWay.add(tracked)
  }

  /** The shares are of all requests; every duplicate and every disconnect is one more request of a key. */
  async #begin (key: number): Promise<void> {
    const firsts = 1 - DUPLICATES_SHARE - DISCONNECTS_SHARE
    const drawn = Math.random() * firsts
    if (drawn < DUPLICATES_SHARE / 2) return this.#twice(key)
    if (drawn < DUPLICATES_SHARE) return this.#andAgain(key)
    if (drawn < DUPLICATES_SHARE + DISCONNECTS_SHARE) return this.#leftAndBack(key)
    await this.#ask(key, 'first')
  }

  async #twice (key: number): Promise<void> {
    const beganAtMs = performance.now()
    await Promise.all([this.#ask(key, 'any', beganAtMs), this.#ask(key, 'any', beganAtMs)])
  }

  async #andAgain (key: number): Promise<void> {
    const beganAtMs = performance.now()
    await this.#ask(key, 'first')
    await pause(Math.random() * this.#options.laterMs)
    await this.#ask(key, 'replay', beganAtMs)
  }

  async #leftAndBack (key: number): Promise<void> {
    const beganAtMs = performance.now()
    await this.#leave(key)
    await pause(Math.random() * this.#options.laterMs)
    await this.#ask(key, 'any', beganAtMs)
  }

  async #untilTaken (key: number): Promise<void> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      const { statusCode, body } = await this.#send(key)
      await body.dump()
      if (statusCode === 201) return
      await pause(COME_BACK_MS)
    }
    this.#note(`key ${key} was never taken, before the load`)
  }

  async #leave (key: number): Promise<void> {
    const gone = new AbortController()
    const timer = setTimeout(() => { gone.abort() }, Math.random() * DISCONNECT_MS_MAX)
    try {
      const { body } = await this.#send(key, gone.signal)
      await body.dump()
    } catch {
      this.counts.disconnects++
    } finally {
      clearTimeout(timer)
    }
  }

  /** `firstAtMs`: when the key was used for the first time, if this is not it. */
  async #ask (key: number, expected: 'first' | 'replay' | 'any', firstAtMs = Infinity): Promise<void> {
    try {
      for (let tries = 1; tries <= TRIES_MAX; tries++) {
        const { statusCode, headers, body } = await this.#send(key)
        const bytes = Buffer.from(await body.arrayBuffer())
        if (statusCode === 503) {
          this.counts.refused++
          await pause(COME_BACK_MS)
          continue
        }
        if (statusCode === 409 && expected === 'any') {
          this.counts.inFlight++
          await pause(COME_BACK_MS)
          continue
        }
        const late = performance.now() - firstAtMs > this.#options.retentionMs
        if (late) this.#noteLate(key)
        this.#check(key, late ? 'any' : expected, statusCode, String(headers['idempotency-status']), bytes)
        return
      }
      this.#note(`key ${key} is in flight, or refused, for ever`)
    } catch (error) {
      this.#note(`key ${key}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }

  #check (key: number, expected: 'first' | 'replay' | 'any', status: number, mark: string, body: Buffer): void {
    if (mark === 'replayed') this.counts.replays++
    const marks = { first: ['executed'], replay: ['replayed'], any: ['executed', 'replayed'] }[expected]
    if (status !== 201 || !marks.includes(mark)) {
      this.#note(`key ${key}: expected ${marks.join(' or ')}, and it is ${status} ${mark} ${body.toString().slice(0, 200)}`)
    } else if (!body.equals(this.#options.upstream.answerOf(key))) {
      this.#note(`key ${key}: another body than its execution's: ${body.toString().slice(0, 100)}`)
    }
  }

  async #send (key: number, signal?: AbortSignal): ReturnType<Pool['request']> {
    this.counts.requests++
    const pool = this.#pools[this.#turn++ % this.#pools.length] as Pool
    return pool.request({
      method: 'POST',
      path: '/things',
      headers: { 'idempotency-key': `${KEY_PREFIX}${key}`, 'content-type': 'application/json' },
      body: `{"key":${key}}`,
      ...signal === undefined ? {} : { signal }
    })
  }

  #countExecutions (): void {
    for (let key = 0; key < this.counts.keys; key++) {
      const times = this.#options.upstream.executed[key]
      if (times !== 1 && !(times === 2 && this.#late.has(key))) this.#note(`key ${key} was executed ${times} times`, this.wrongExecutions)
    }
  }

  #noteLate (key: number): void {
    this.counts.late++
    this.#late.add(key)
  }

  #note (what: string, kept = this.wrongAnswers): void {
    this.wrongCount++
    if (kept.length < WRONG_KEPT) kept.push(what)
  }
}
