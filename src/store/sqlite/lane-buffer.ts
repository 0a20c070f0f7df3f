/**
 * The memory through which claims and settles reach the worker: one batch at a time, field after field. A structured clone of the same
 * calls costs either thread several times as much (docs/internals/performance.md). The main thread writes, rings, and writes again only
 * after the worker's reply. The worker reads a batch within its transaction and keeps no reference into this memory.
 */
import type { Claim, Settlement, SettledState } from '../../core/record/record.ts'

/** What both threads hold. Plain shared memory, so that it passes as workerData. */
export interface LaneMemory {
  /** [how often the main thread rang for anything, how often for a batch in this memory]. */
  readonly bell: Int32Array<SharedArrayBuffer>
  readonly numbers: Float64Array<SharedArrayBuffer>
  readonly bytes: Uint8Array<SharedArrayBuffer>
}

export const RUNG = 0
export const BATCHES = 1

/** A call with more bytes than this goes as a message. Answers of up to 64 KiB are nearly all that APIs give. */
const CALL_BYTES_MAX = 64 * 1024
/** Some hundred usual calls (0.5 to 2 KiB), or sixteen of the largest. Pages that no batch reaches take no memory. */
const BYTES = 16 * CALL_BYTES_MAX
/** Of either kind, the most calls in a batch. Beyond some dozens the commit's fsync no longer dominates. */
export const BATCH_MAX = 128
/** A claim has 17, a settle 10. */
const NUMBERS_OF_CALL = 20
const HEAD = 4
/** UTF-8 takes at most three bytes for each UTF-16 unit. */
const BYTES_OF_UNIT = 3
/** The length that stands for null. */
const NULL = -1
const ASCII_MAX = 0x7f
/** Up to this length a loop is faster than a call into native code. */
const SHORT = 64

/** The outcomes that a settle in this memory can have. An unknown one is rare and carries more. */
const OUTCOMES = ['completed', 'consumed', 'released'] as const

export function newLaneMemory (): LaneMemory {
  const numbers = HEAD + 2 * BATCH_MAX * NUMBERS_OF_CALL
  return {
    bell: new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT)),
    numbers: new Float64Array(new SharedArrayBuffer(numbers * Float64Array.BYTES_PER_ELEMENT)),
    bytes: new Uint8Array(new SharedArrayBuffer(BYTES))
  }
}

/** Whether the settle can go through this memory. */
export function isUsualSettle ({ outcome, reason, question = null, headers, body }: Settlement): boolean {
  return outcome !== 'indeterminate' && reason === null && question === null &&
    (headers?.length ?? 0) + (body?.length ?? 0) <= CALL_BYTES_MAX
}

/** Whether the claim can go through this memory. Texts of a claim are bounded (ABOUT_TEXT_MAX); a probe's question is large at most. */
export function isUsualClaim ({ question, fingerprint, trace, about }: Claim): boolean {
  const { route, method, path, requestId, instance, keyText } = about
  const units = route.length + method.length + path.length + requestId.length + instance.length + (keyText?.length ?? 0)
  return (units + (trace?.length ?? 0)) * BYTES_OF_UNIT + fingerprint.value.length + (question?.length ?? 0) <= CALL_BYTES_MAX
}

/** More than the ids, owners and hashes of one call. */
const FIXED_BYTES = 1024
/** A call may be begun below this fill: whatever it is, it fits. */
const FULL = BYTES - CALL_BYTES_MAX - FIXED_BYTES

/** The main thread's side. Settles come first, so that a claim never delays one that could be written before it. */
export class LaneWriter {
  readonly #numbers: Float64Array
  readonly #bytes: Buffer
  #number = HEAD
  #byte = 0

  constructor ({ numbers, bytes }: LaneMemory) {
    this.#numbers = numbers
    this.#bytes = Buffer.from(bytes.buffer)
  }

  /** Nothing more fits into this batch. */
  get full (): boolean { return this.#byte > FULL }

  begin (): void {
    this.#number = HEAD
    this.#byte = 0
  }

  end (settles: number, claims: number, nowMs: number, believedMs: number): void {
    this.#numbers[0] = settles
    this.#numbers[1] = claims
    this.#numbers[2] = nowMs
    this.#numbers[3] = believedMs
  }

  settle ({ token, outcome, keepMs, status, headers, body, sentMs, answeredMs }: Settlement): void {
    this.#put((OUTCOMES as readonly SettledState[]).indexOf(outcome))
    this.#put(token.attempt)
    this.#put(keepMs)
    this.#put(status ?? NULL)
    this.#put(sentMs ?? NULL)
    this.#put(answeredMs ?? NULL)
    this.#blob(token.id)
    this.#blob(token.owner)
    this.#blob(headers)
    this.#blob(body)
  }

  claim ({ id, scheme, earlierId, owner, fingerprint, leaseMs, unknownKeepMs, quarantineMs, question, about, trace }: Claim): void {
    this.#put(scheme)
    this.#put(fingerprint.alg)
    this.#put(leaseMs)
    this.#put(unknownKeepMs)
    this.#put(quarantineMs)
    this.#blob(id)
    this.#blob(earlierId)
    this.#blob(owner)
    this.#blob(fingerprint.value)
    this.#blob(question)
    this.#blob(about.keyHash)
    this.#text(about.route)
    this.#text(about.method)
    this.#text(about.path)
    this.#text(about.requestId)
    this.#text(about.instance)
    this.#text(about.keyText)
    this.#text(trace ?? null)
  }

  #put (value: number): void {
    this.#numbers[this.#number++] = value
  }

  #blob (blob: Uint8Array | null): void {
    if (blob === null) return this.#put(NULL)
    this.#put(blob.length)
    if (blob.length <= SHORT) this.#bytes.set(blob, this.#byte)
    else (blob as Buffer).copy(this.#bytes, this.#byte)
    this.#byte += blob.length
  }

  #text (text: string | null): void {
    if (text === null) return this.#put(NULL)
    const length = text.length <= SHORT && this.#ascii(text) ? text.length : this.#bytes.write(text, this.#byte)
    this.#put(length)
    this.#byte += length
  }

  /** false: the text is not ASCII. What was written of it is written over. */
  #ascii (text: string): boolean {
    for (let index = 0; index < text.length; index++) {
      const unit = text.charCodeAt(index)
      if (unit > ASCII_MAX) return false
      this.#bytes[this.#byte + index] = unit
    }
    return true
  }
}

/** The worker's side. What it returns has views into the memory, which are valid until the reply. */
export class LaneReader {
  readonly #numbers: Float64Array
  readonly #bytes: Buffer
  #number = HEAD
  #byte = 0

  constructor ({ numbers, bytes }: LaneMemory) {
    this.#numbers = numbers
    this.#bytes = Buffer.from(bytes.buffer)
  }

  get nowMs (): number { return this.#at(2) }

  get believedMs (): number { return this.#at(3) }

  /** Everything that the main thread has written for this batch, settles first. */
  read (): { readonly settles: Settlement[], readonly claims: Claim[] } {
    this.#number = HEAD
    this.#byte = 0
    const settles: Settlement[] = []
    const claims: Claim[] = []
    for (let left = this.#at(0); left > 0; left--) settles.push(this.#settle())
    for (let left = this.#at(1); left > 0; left--) claims.push(this.#claim())
    return { settles, claims }
  }

  #settle (): Settlement {
    const outcome = OUTCOMES[this.#next()] ?? 'completed'
    const attempt = this.#next()
    const keepMs = this.#next()
    const status = this.#nextOrNull()
    const sentMs = this.#nextOrNull()
    const answeredMs = this.#nextOrNull()
    const token = { id: this.#blob(), owner: this.#blob(), attempt }
    const headers = this.#blobOrNull()
    const body = this.#blobOrNull()
    return { token, outcome, keepMs, status, headers, body, reason: null, sentMs, answeredMs }
  }

  #claim (): Claim {
    const scheme = this.#next()
    const alg = this.#next()
    const leaseMs = this.#next()
    const unknownKeepMs = this.#next()
    const quarantineMs = this.#next()
    const id = this.#blob()
    const earlierId = this.#blobOrNull()
    const owner = this.#blob()
    const fingerprint = { alg, value: this.#blob() }
    const question = this.#blobOrNull()
    const keyHash = this.#blob()
    const about = {
      route: this.#text(),
      method: this.#text(),
      path: this.#text(),
      requestId: this.#text(),
      instance: this.#text(),
      keyHash,
      keyText: this.#textOrNull()
    }
    const trace = this.#textOrNull()
    return { id, scheme, earlierId, owner, fingerprint, leaseMs, unknownKeepMs, quarantineMs, question, about, trace }
  }

  #at (index: number): number {
    return this.#numbers[index] as number
  }

  #next (): number {
    return this.#at(this.#number++)
  }

  #nextOrNull (): number | null {
    const number = this.#next()
    return number === NULL ? null : number
  }

  #blob (): Buffer {
    const from = this.#byte
    this.#byte += this.#next()
    return this.#bytes.subarray(from, this.#byte)
  }

  #blobOrNull (): Buffer | null {
    if (this.#at(this.#number) !== NULL) return this.#blob()
    this.#number++
    return null
  }

  #text (): string {
    const from = this.#byte
    this.#byte += this.#next()
    return this.#bytes.toString('utf8', from, this.#byte)
  }

  #textOrNull (): string | null {
    if (this.#at(this.#number) !== NULL) return this.#text()
    this.#number++
    return null
  }
}
