/**
 * Settled answers in memory, in front of both stores (P3). The cache is bounded in bytes, and each entry in time.
 * An entry lives at most one lease of the row after the row was read, and never longer than the row (P10).
 * So an operator's delete, which takes effect after two leases, need not notify any process.
 *
 * It has two halves. New entries go into one. When that is full, the other is cleared and takes its
 * place: what goes is what came first. An answer that needs more than a half is not kept.
 */
import type { Answer, Fingerprint, KeptAnswerState, RawHeaders, Row } from '../../core/record/record.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Copy, SettledAnswer } from '../../ports/locks.ts'
import { CacheGeneration, NONE } from './cache-generation.ts'
import type { CacheEntry } from './cache-generation.ts'

export interface CachedAnswer {
  readonly state: KeptAnswerState
  readonly fingerprint: Fingerprint
  readonly answer: Answer
  readonly expiresAtMs: number
  /** Trace context of the request that executed. */
  readonly trace?: string | null
}

/** Longer bodies are kept as the Buffers that they are. */
export const TEXT_BYTES_MAX = 16 * 1024

export class ReplayCache {
  readonly #clock: Pick<Clock, 'monotonicMs' | 'wallMs'>
  #bytesMax: number
  #new: CacheGeneration
  #old: CacheGeneration

  constructor (clock: Pick<Clock, 'monotonicMs' | 'wallMs'>, bytesMax: number) {
    this.#clock = clock
    this.#bytesMax = bytesMax
    this.#new = halfOf(bytesMax)
    this.#old = halfOf(bytesMax)
  }

  /** For a reload. Another bound starts an empty cache. A miss costs one read of the store. */
  resize (bytesMax: number): void {
    if (bytesMax === this.#bytesMax) return
    this.#bytesMax = bytesMax
    this.#new = halfOf(bytesMax)
    this.#old = halfOf(bytesMax)
  }

  find (name: string): CachedAnswer | null {
    return this.#findIn(this.#new, name) ?? this.#findIn(this.#old, name)
  }

  has (name: string): boolean {
    return this.#placeIn(this.#new, name) !== NONE || this.#placeIn(this.#old, name) !== NONE
  }

  /** For an answer that its owner took back. */
  forget (name: string): void {
    for (const generation of [this.#new, this.#old]) {
      const place = generation.find(name)
      if (place !== NONE) generation.end(place)
    }
  }

  #findIn (generation: CacheGeneration, name: string): CachedAnswer | null {
    const place = this.#placeIn(generation, name)
    return place === NONE ? null : toAnswer(generation.read(place))
  }

  /** Both clocks count: the monotonic one stands still while the machine is suspended. */
  #placeIn (generation: CacheGeneration, name: string): number {
    const place = generation.find(name)
    return place === NONE || generation.isOver(place, this.#clock.monotonicMs(), this.#clock.wallMs()) ? NONE : place
  }

  /** After an acknowledged settle. */
  keepSettled (name: string, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number, askedAtWallMs: number): void {
    this.#keep(name, settled, keepLeftMs - settled.leaseMs, askedAtMs, askedAtWallMs)
  }

  /** After the committed row was read. */
  keepRow (name: string, row: Row, answer: Answer, askedAtMs: number, askedAtWallMs: number): void {
    const state = row.state === 'consumed' ? 'consumed' : 'completed'
    const { fingerprint, leaseMs, trace = null } = row
    this.#keep(name, { state, fingerprint, answer, leaseMs, trace }, (row.keepLeftMs ?? 0) - leaseMs, askedAtMs, askedAtWallMs)
  }

  /** After a copy was read from Redis. Copies end one lease before the row. */
  keepCopy (name: string, copy: Copy, askedAtMs: number, askedAtWallMs: number): void {
    const sinceMs = Math.max(this.#clock.monotonicMs() - askedAtMs, this.#clock.wallMs() - askedAtWallMs)
    this.#keep(name, copy, copy.expiresAtMs - this.#clock.wallMs() + sinceMs, askedAtMs, askedAtWallMs)
  }

  /**
   * `leftMs`: until one lease before the row's end. Times count from before the statement, because this process may have been
   * stopped between the reply and now.
   */
  #keep (
    name: string,
    settled: Omit<CachedAnswer, 'expiresAtMs'> & Pick<Copy, 'leaseMs'>,
    leftMs: number,
    askedAtMs: number,
    askedAtWallMs: number
  ): void {
    const { state, fingerprint, answer, leaseMs, trace = null } = settled
    const now = this.#clock.monotonicMs()
    const wallMs = this.#clock.wallMs()
    const sinceMs = Math.max(now - askedAtMs, wallMs - askedAtWallMs)
    const endsAtMs = now + Math.min(leftMs, leaseMs) - sinceMs
    if (endsAtMs <= now) return
    const entry: CacheEntry = {
      state,
      alg: fingerprint.alg,
      fingerprint: fingerprint.value,
      status: answer.status,
      headers: answer.headers,
      body: answer.text ?? (answer.body.length > TEXT_BYTES_MAX ? answer.body : answer.body.toString('latin1')),
      expiresAtMs: wallMs + leftMs + leaseMs - sinceMs,
      endsAtMs,
      endsAtWallMs: wallMs + endsAtMs - now,
      trace
    }
    if (this.#new.add(name, entry) !== 'full') return
    [this.#new, this.#old] = [this.#old, this.#new]
    this.#new.clear()
    this.#new.add(name, entry)
  }
}

function halfOf (bytesMax: number): CacheGeneration {
  return new CacheGeneration(bytesMax / 2)
}

function toAnswer ({ state, alg, fingerprint, status, headers, body, expiresAtMs, trace }: CacheEntry): CachedAnswer {
  return {
    state,
    fingerprint: { alg, value: fingerprint },
    answer: typeof body === 'string' ? new TextAnswer(status, headers, body) : { status, headers, body },
    expiresAtMs,
    trace
  }
}

/** Most replays are written as the text that is kept, and need no Buffer. */
class TextAnswer implements Answer {
  readonly status: number
  readonly headers: RawHeaders
  readonly text: string

  constructor (status: number, headers: RawHeaders, text: string) {
    this.status = status
    this.headers = headers
    this.text = text
  }

  get body (): Buffer { return Buffer.from(this.text, 'latin1') }
}
