/**
 * Settled answers in memory, in front of both stores (P3): bounded in bytes, and each entry in time — at most one lease
 * of the row after a look at it, and never beyond it (P10). So an operator's delete, which takes effect after two leases,
 * needs to tell nobody.
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
 * A settled answer as few objects of the heap: there are a hundred thousand of them, and every one of their objects is
 * moved twice by the collector and marked again and again after that.
 */
interface Entry {
  readonly state: KeptAnswerState
  readonly alg: number
  /** As are all texts here: a character for a byte (latin1). */
  readonly fingerprint: string
  readonly status: number
  readonly head: string
  readonly body: string | Buffer
  readonly expiresAtMs: number
  readonly endsAtMs: number
  readonly endsAtWallMs: number
}

type Entries = LRUCache<string, Entry>

/** Bytes that an entry costs beside its body and headers: key, objects, the list. */
const ENTRY_BYTES = 512
/** Longer bodies stay outside the heap, which would only copy them about. */
const TEXT_BYTES_MAX = 16 * 1024
/** In no header field. */
const BETWEEN = '\0'

export class ReplayCache {
  readonly #clock: Clock
  #bytesMax: number
  #entries: Entries
  /** The last head that was kept or shown: most answers of an upstream have the same. */
  #head = ''
  #headers: RawHeaders = []

  constructor (clock: Clock, bytesMax: number) {
    this.#clock = clock
    this.#bytesMax = bytesMax
    this.#entries = entriesWithin(bytesMax)
  }

  /** A reload. Another bound begins with nothing: what is missed is one look away. */
  resize (bytesMax: number): void {
    if (bytesMax === this.#bytesMax) return
    this.#bytesMax = bytesMax
    this.#entries = entriesWithin(bytesMax)
  }

  find (name: string): CachedAnswer | null {
    const entry = this.#entries.get(name)
    if (entry === undefined) return null
    // On both clocks: the monotonic one stands still while the machine is suspended.
    if (entry.endsAtMs > this.#clock.monotonicMs() && entry.endsAtWallMs > this.#clock.wallMs()) return this.#shown(entry)
    this.#entries.delete(name)
    return null
  }

  /** It was taken back. */
  forget (name: string): void {
    this.#entries.delete(name)
  }

  /** After an acknowledged settle. */
  keepSettled (name: string, settled: SettledAnswer, keepLeftMs: number, askedAtMs: number, askedAtWallMs: number): void {
    this.#keep(name, settled, keepLeftMs - settled.leaseMs, askedAtMs, askedAtWallMs)
  }

  /** After a look at the committed row. */
  keepRow (name: string, row: Row, answer: Answer, askedAtMs: number, askedAtWallMs: number): void {
    const state = row.state === 'consumed' ? 'consumed' : 'completed'
    const { fingerprint, leaseMs } = row
    this.#keep(name, { state, fingerprint, answer, leaseMs }, (row.keepLeftMs ?? 0) - leaseMs, askedAtMs, askedAtWallMs)
  }

  /** From Redis, whose copies end one lease before the row. */
  keepCopy (name: string, copy: Copy, askedAtMs: number, askedAtWallMs: number): void {
    const sinceMs = Math.max(this.#clock.monotonicMs() - askedAtMs, this.#clock.wallMs() - askedAtWallMs)
    this.#keep(name, copy, copy.expiresAtMs - this.#clock.wallMs() + sinceMs, askedAtMs, askedAtWallMs)
  }

  /**
   * `leftMs`: until a lease before the row's end. Everything counts from before the statement: this process may have
   * been stopped between its reply and now.
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
      body: answer.body.length > TEXT_BYTES_MAX ? answer.body : answer.body.toString('latin1'),
      expiresAtMs: wallMs + leftMs + leaseMs - sinceMs,
      endsAtMs,
      endsAtWallMs: wallMs + endsAtMs - now
    })
  }

  #headOf (headers: RawHeaders): string {
    const head = headers.join(BETWEEN)
    // The same text once, not as often as there are answers.
    return head === this.#head ? this.#head : head
  }

  #shown ({ state, alg, fingerprint, status, head, body, expiresAtMs }: Entry): CachedAnswer {
    if (head !== this.#head) {
      this.#head = head
      this.#headers = head === '' ? [] : head.split(BETWEEN)
    }
    return {
      state,
      fingerprint: { alg, value: Buffer.from(fingerprint, 'latin1') },
      answer: { status, headers: this.#headers, body: typeof body === 'string' ? Buffer.from(body, 'latin1') : body },
      expiresAtMs
    }
  }
}

/** Without room for a single entry nothing is kept. */
function entriesWithin (bytesMax: number): Entries {
  return new LRUCache({
    maxSize: Math.max(ENTRY_BYTES, bytesMax),
    sizeCalculation: (entry) => ENTRY_BYTES + 1 + entry.body.length + entry.head.length
  })
}
