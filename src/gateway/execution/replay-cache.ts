/**
 * Settled answers in memory, in front of both stores (P3). The cache is bounded in bytes, and each entry in time.
 * An entry lives at most one lease of the row after the row was read, and never longer than the row (P10).
 * So an operator's delete, which takes effect after two leases, need not notify any process.
 */
import { LRUCache } from 'lru-cache'
import type { Answer, Fingerprint, KeptAnswerState, RawHeaders, Row } from '../../core/record/record.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Copy, SettledAnswer } from '../../ports/locks.ts'

export interface CachedAnswer {
  readonly state: KeptAnswerState
  readonly fingerprint: Fingerprint
  readonly answer: Answer
  readonly expiresAtMs: number
}

/**
 * A settled answer in few heap objects. There may be a hundred thousand of them.
 * The collector moves each object twice, and marks it again and again after that.
 */
interface Entry {
  readonly state: KeptAnswerState
  readonly alg: number
  /** latin1, like all strings here: one character for each byte. */
  readonly fingerprint: string
  readonly status: number
  readonly head: string
  readonly body: string | Buffer
  readonly expiresAtMs: number
  readonly endsAtMs: number
  readonly endsAtWallMs: number
}

type Entries = LRUCache<string, Entry>

/** Bytes of an entry beside its body and headers: key, objects, the list. */
const ENTRY_BYTES = 512
/** Longer bodies stay Buffers outside the heap, so that the collector does not copy them. */
export const TEXT_BYTES_MAX = 16 * 1024
/** A character that no header field contains. */
const SEPARATOR = '\0'

export class ReplayCache {
  readonly #clock: Clock
  #bytesMax: number
  #entries: Entries
  /** The head of the last answer that was returned. Most answers of an upstream have the same. */
  #head = ''
  #headers: RawHeaders = []

  constructor (clock: Clock, bytesMax: number) {
    this.#clock = clock
    this.#bytesMax = bytesMax
    this.#entries = entriesWithin(bytesMax)
  }

  /** For a reload. Another bound starts an empty cache. A miss costs one read of the store. */
  resize (bytesMax: number): void {
    if (bytesMax === this.#bytesMax) return
    this.#bytesMax = bytesMax
    this.#entries = entriesWithin(bytesMax)
  }

  find (name: string): CachedAnswer | null {
    const entry = this.#entries.get(name)
    if (entry === undefined) return null
    // Both clocks count: the monotonic one stands still while the machine is suspended.
    if (entry.endsAtMs > this.#clock.monotonicMs() && entry.endsAtWallMs > this.#clock.wallMs()) return this.#toAnswer(entry)
    this.#entries.delete(name)
    return null
  }

  /** For an answer that its owner took back. */
  forget (name: string): void {
    this.#entries.delete(name)
  }

  /** After an acknowledged settle. */
  keepSettled (name: string, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number, askedAtWallMs: number): void {
    this.#keep(name, settled, keepLeftMs - settled.leaseMs, askedAtMs, askedAtWallMs)
  }

  /** After the committed row was read. */
  keepRow (name: string, row: Row, answer: Answer, askedAtMs: number, askedAtWallMs: number): void {
    const state = row.state === 'consumed' ? 'consumed' : 'completed'
    const { fingerprint, leaseMs } = row
    this.#keep(name, { state, fingerprint, answer, leaseMs }, (row.keepLeftMs ?? 0) - leaseMs, askedAtMs, askedAtWallMs)
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
    const { state, fingerprint, answer, leaseMs } = settled
    const now = this.#clock.monotonicMs()
    const wallMs = this.#clock.wallMs()
    const sinceMs = Math.max(now - askedAtMs, wallMs - askedAtWallMs)
    const endsAtMs = now + Math.min(leftMs, leaseMs) - sinceMs
    if (endsAtMs <= now) return
    this.#entries.set(name, {
      state,
      alg: fingerprint.alg,
      fingerprint: fingerprint.value.toString('latin1'),
      status: answer.status,
      head: this.#headOf(answer.headers),
      body: answer.text ?? (answer.body.length > TEXT_BYTES_MAX ? answer.body : answer.body.toString('latin1')),
      expiresAtMs: wallMs + leftMs + leaseMs - sinceMs,
      endsAtMs,
      endsAtWallMs: wallMs + endsAtMs - now
    })
  }

  #headOf (headers: RawHeaders): string {
    const head = headers.join(SEPARATOR)
    // Shares one string among answers with the same head.
    return head === this.#head ? this.#head : head
  }

  #toAnswer ({ state, alg, fingerprint, status, head, body, expiresAtMs }: Entry): CachedAnswer {
    if (head !== this.#head) {
      this.#head = head
      this.#headers = head === '' ? [] : head.split(SEPARATOR)
    }
    return {
      state,
      fingerprint: { alg, value: Buffer.from(fingerprint, 'latin1') },
      answer: typeof body === 'string' ? new TextAnswer(status, this.#headers, body) : { status, headers: this.#headers, body },
      expiresAtMs
    }
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

/** An entry adds at least one byte to {@link ENTRY_BYTES}, so that a bound below one entry keeps nothing. */
function entriesWithin (bytesMax: number): Entries {
  return new LRUCache({
    maxSize: Math.max(ENTRY_BYTES, bytesMax),
    sizeCalculation: (entry) => ENTRY_BYTES + 1 + entry.body.length + entry.head.length
  })
}
