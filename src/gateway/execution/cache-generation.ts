/**
 * Settled answers as bytes in large blocks, found by a hash table of numbers. The collector sees a few blocks instead of a hundred thousand
 * answers, which it would move twice and mark again and again. What is full is cleared as a whole.
 */
import { randomInt } from 'node:crypto'
import { TRACEPARENT_LENGTH } from '../../core/record/record.ts'
import type { KeptAnswerState, RawHeaders } from '../../core/record/record.ts'

export interface CacheEntry {
  readonly state: KeptAnswerState
  readonly alg: number
  readonly fingerprint: Buffer
  readonly status: number
  readonly headers: RawHeaders
  /** Text: latin1, one character for each byte. */
  readonly body: string | Buffer
  readonly expiresAtMs: number
  /** It is not to be believed behind this end by the monotonic clock, nor behind that by the other. */
  readonly endsAtMs: number
  readonly endsAtWallMs: number
  /** Trace context of the request that executed. null: it is not recorded. */
  readonly trace: string | null
}

const BLOCK_BYTES_MAX = 1024 * 1024
const WORD_BYTES = 8
/**
 * An entry begins with these numbers, a word each. Its name, its fingerprint, its trace context (if it has one), its head (unless the one
 * before has the same) and its text follow.
 */
const [STATE, ALG, STATUS, EXPIRES, ENDS, ENDS_WALL, NAME, FINGERPRINT] = [0, 1, 2, 3, 4, 5, 6, 7]
const [HEAD_AT, HEAD, BODY_AT, BODY] = [8, 9, 10, 11]
const FIXED_WORDS = 12
/** What an entry needs of the table, which is at most half full. */
const TABLE_BYTES = 16
const SLOTS_AT_FIRST = 256
/** A character that no header field contains. */
const SEPARATOR = '\0'
const STATES = ['completed', 'consumed'] as const satisfies readonly KeptAnswerState[]
/** Added to the state of an entry with a trace context. */
const TRACED = STATES.length
export const NONE = -1

interface Block { readonly bytes: Buffer, readonly words: Float64Array }

export class CacheGeneration {
  readonly #bytesMax: number
  readonly #blockWords: number
  readonly #blockBytes: number
  readonly #blocks: Block[] = []
  /** Where the next entry begins, if there is room in that block. */
  #block = 0
  #at = 0
  /** Bodies that stay Buffers. */
  readonly #large: Buffer[] = []
  #largeBytes = 0
  /** Pairs: the hash of a name, and the place of its newest entry, plus one. 0: the slot is free. */
  #table = new Uint32Array(2 * SLOTS_AT_FIRST)
  #count = 0
  /** The head that was written last. Most answers of an upstream have the same. */
  #headers: RawHeaders = []
  #headAt = NONE
  #headLength = 0
  /** The head that was read last. */
  #readAt = NONE
  #readHead: RawHeaders = []

  constructor (bytesMax: number) {
    this.#bytesMax = bytesMax
    this.#blockWords = Math.floor(Math.min(bytesMax, BLOCK_BYTES_MAX) / WORD_BYTES)
    this.#blockBytes = this.#blockWords * WORD_BYTES
  }

  /** It becomes the newest of its name. Otherwise nothing has changed: `full`, or it is larger than a generation. */
  add (name: string, entry: CacheEntry): 'added' | 'full' | 'too-large' {
    const { fingerprint, body } = entry
    const trace = entry.trace?.length === TRACEPARENT_LENGTH ? entry.trace : ''
    const isNewHead = this.#headAt === NONE || !isSame(entry.headers, this.#headers)
    const head = isNewHead ? entry.headers.join(SEPARATOR) : ''
    const isText = typeof body === 'string'
    const bytes = FIXED_WORDS * WORD_BYTES + name.length + fingerprint.length + trace.length + head.length + (isText ? body.length : 0)
    const room = this.#makeRoom(Math.ceil(bytes / WORD_BYTES) * WORD_BYTES, isText ? 0 : body.length)
    if (room !== 'added') return room
    const { bytes: block, words } = this.#blocks[this.#block] as Block
    const from = this.#block * this.#blockBytes
    let at = this.#at + FIXED_WORDS * WORD_BYTES
    at += block.write(name, at, 'latin1')
    block.set(fingerprint, at)
    at += fingerprint.length
    if (trace !== '') at += block.write(trace, at, 'latin1')
    if (isNewHead) {
      this.#headers = entry.headers
      this.#headAt = from + at
      this.#headLength = head.length
      at += block.write(head, at, 'latin1')
    }
    const word = this.#at / WORD_BYTES
    words[word + STATE] = STATES.indexOf(entry.state) + (trace === '' ? 0 : TRACED)
    words[word + ALG] = entry.alg
    words[word + STATUS] = entry.status
    words[word + EXPIRES] = entry.expiresAtMs
    words[word + ENDS] = entry.endsAtMs
    words[word + ENDS_WALL] = entry.endsAtWallMs
    words[word + NAME] = name.length
    words[word + FINGERPRINT] = fingerprint.length
    words[word + HEAD_AT] = this.#headAt
    words[word + HEAD] = this.#headLength
    // Below zero: its number among the large ones, from 1 on.
    words[word + BODY_AT] = isText ? from + at : -this.#large.push(body)
    words[word + BODY] = body.length
    if (isText) at += block.write(body, at, 'latin1')
    this.#remember(name, from / WORD_BYTES + word)
    this.#at = Math.ceil(at / WORD_BYTES) * WORD_BYTES
    return 'added'
  }

  /** The place of the newest entry of the name, or NONE. */
  find (name: string): number {
    const slot = this.#slotOf(name, hashOf(name))
    return (this.#table[slot + 1] as number) - 1
  }

  isOver (place: number, monotonicMs: number, wallMs: number): boolean {
    return !(this.#number(place, ENDS) > monotonicMs && this.#number(place, ENDS_WALL) > wallMs)
  }

  /** From now on it is over. */
  end (place: number): void {
    const { words } = this.#blockOf(place * WORD_BYTES)
    words[place % this.#blockWords + ENDS] = -Infinity
  }

  read (place: number): CacheEntry {
    const { words } = this.#blockOf(place * WORD_BYTES)
    const word = place % this.#blockWords
    const [bodyAt, bodyLength] = [words[word + BODY_AT] as number, words[word + BODY] as number]
    const fingerprintAt = (place + FIXED_WORDS) * WORD_BYTES + (words[word + NAME] as number)
    const fingerprintLength = words[word + FINGERPRINT] as number
    const state = words[word + STATE] as number
    const isTraced = state >= TRACED
    return {
      state: STATES[isTraced ? state - TRACED : state] ?? 'completed',
      alg: words[word + ALG] as number,
      fingerprint: Buffer.from(this.#text(fingerprintAt, fingerprintLength), 'latin1'),
      trace: isTraced ? this.#text(fingerprintAt + fingerprintLength, TRACEPARENT_LENGTH) : null,
      status: words[word + STATUS] as number,
      headers: this.#headersAt(words[word + HEAD_AT] as number, words[word + HEAD] as number),
      body: bodyAt < 0 ? this.#large[-bodyAt - 1] as Buffer : this.#text(bodyAt, bodyLength),
      expiresAtMs: words[word + EXPIRES] as number,
      endsAtMs: words[word + ENDS] as number,
      endsAtWallMs: words[word + ENDS_WALL] as number
    }
  }

  /** Keeps its blocks for what comes next. */
  clear (): void {
    this.#table.fill(0)
    this.#count = 0
    this.#block = 0
    this.#at = 0
    this.#large.length = 0
    this.#largeBytes = 0
    this.#headAt = NONE
    this.#readAt = NONE
  }

  // ---------------------------------------------------------------- blocks

  #makeRoom (bytes: number, largeBytes: number): ReturnType<CacheGeneration['add']> {
    if (bytes > this.#blockBytes || bytes + largeBytes + TABLE_BYTES > this.#bytesMax) return 'too-large'
    const [block, at] = this.#at + bytes > this.#blockBytes ? [this.#block + 1, 0] : [this.#block, this.#at]
    const needed = block * this.#blockBytes + at + bytes + this.#largeBytes + largeBytes + (this.#count + 1) * TABLE_BYTES
    if (needed > this.#bytesMax) return 'full'
    this.#block = block
    this.#at = at
    this.#largeBytes += largeBytes
    if (block === this.#blocks.length) {
      const made = Buffer.allocUnsafeSlow(this.#blockBytes)
      this.#blocks.push({ bytes: made, words: new Float64Array(made.buffer) })
    }
    return 'added'
  }

  #blockOf (at: number): Block {
    return this.#blocks[Math.floor(at / this.#blockBytes)] as Block
  }

  #number (place: number, field: number): number {
    return this.#blockOf(place * WORD_BYTES).words[place % this.#blockWords + field] as number
  }

  #text (at: number, length: number): string {
    const from = at % this.#blockBytes
    return this.#blockOf(at).bytes.toString('latin1', from, from + length)
  }

  #headersAt (at: number, length: number): RawHeaders {
    if (at !== this.#readAt) {
      this.#readAt = at
      this.#readHead = length === 0 ? [] : this.#text(at, length).split(SEPARATOR)
    }
    return this.#readHead
  }

  // ---------------------------------------------------------------- the table

  #remember (name: string, place: number): void {
    const hash = hashOf(name)
    const slot = this.#slotOf(name, hash)
    if (this.#table[slot + 1] === 0) this.#count++
    this.#table[slot] = hash
    this.#table[slot + 1] = place + 1
    if (4 * this.#count > this.#table.length) this.#grow()
  }

  /** The slot of the name, or the free one where it belongs. */
  #slotOf (name: string, hash: number): number {
    const table = this.#table
    const mask = table.length - 1
    let slot = 2 * hash & mask
    for (let place = table[slot + 1] as number; place !== 0; place = table[slot + 1] as number) {
      if (table[slot] === hash && this.#isNamed(place - 1, name)) return slot
      slot = slot + 2 & mask
    }
    return slot
  }

  #isNamed (place: number, name: string): boolean {
    if (this.#number(place, NAME) !== name.length) return false
    const at = (place + FIXED_WORDS) * WORD_BYTES
    const { bytes } = this.#blockOf(at)
    const from = at % this.#blockBytes
    for (let index = 0; index < name.length; index++) if (bytes[from + index] !== name.charCodeAt(index)) return false
    return true
  }

  #grow (): void {
    const small = this.#table
    const table = new Uint32Array(2 * small.length)
    const mask = table.length - 1
    for (let at = 0; at < small.length; at += 2) {
      const [hash, place] = [small[at] as number, small[at + 1] as number]
      if (place === 0) continue
      let slot = 2 * hash & mask
      while (table[slot + 1] !== 0) slot = slot + 2 & mask
      table[slot] = hash
      table[slot + 1] = place
    }
    this.#table = table
  }
}

function isSame (one: RawHeaders, other: RawHeaders): boolean {
  if (one.length !== other.length) return false
  for (let at = 0; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}

/** FNV-1a from a number that no client knows: it cannot choose keys whose names meet in one slot. */
function hashOf (name: string): number {
  let hash = SEED
  for (let index = 0; index < name.length; index++) hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193)
  return (hash ^ hash >>> 15) >>> 0
}

const SEED = randomInt(0x7fffffff)
