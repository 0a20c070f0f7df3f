/**
 * The value of a record's key: a byte for the kind, then the owner for the two kinds that have one, then the rest. The
 * scripts read nothing but that beginning. A value that cannot be decoded is null and counts as "no Redis".
 */
import { answerBytes, decodeAnswer, encodeHeaders, putAnswer } from '../../core/protocol/codec.ts'
import { OWNER_BYTES, TRACEPARENT_LENGTH, type Answer, type Fingerprint } from '../../core/record/record.ts'
import type { Copy, Lock, LockValue, UnsettledCopy } from '../../ports/locks.ts'

const LOCK = 0x4c // L
const COPY = 0x47 // G: of a generation
/**
 * A copy as older releases wrote it, which knew of no generation. Their gateways may still serve beside this one. Read, never
 * written.
 */
const COPY_BEFORE = 0x43 // C
const UNSETTLED = 0x55 // U

/** Kind, owner, time of the lock. */
const LOCK_PREFIX_BYTES = 1 + OWNER_BYTES + 8
/** At the end: the attempt, if the claim is known to have been acknowledged. */
const ATTEMPT_BYTES = 4
/** Kind, generation: what the script that clears compares. */
const COPY_BEGINNING_BYTES = 1 + 8
/** Then state, attempt, end, the row's lease. */
const COPY_PREFIX_BYTES = COPY_BEGINNING_BYTES + 1 + 4 + 8 + 8
/** Kind, state, attempt, end. */
const COPY_BEFORE_PREFIX_BYTES = 1 + 1 + 4 + 8
/** The generation of a copy that names none: before every other. */
const NO_GENERATION = 0
/** Kind, owner, attempt, retention. */
const UNSETTLED_PREFIX_BYTES = 1 + OWNER_BYTES + 4 + 8
/** Algorithm and length in front of every fingerprint. */
const FINGERPRINT_PREFIX_BYTES = 2 + 2

const STATES = ['completed', 'consumed'] as const
/** Added to the state of a copy with a trace context, which stands before the fingerprint. To an older build it is no copy. */
const TRACED = STATES.length

export function encodeValue (value: LockValue): Buffer {
  switch (value.kind) {
    case 'lock': return encodeLock(value.lock)
    case 'copy': return encodeCopy(value.copy)
    case 'unsettled': return encodeUnsettled(value.copy)
  }
}

export function decodeValue (bytes: Buffer): LockValue | null {
  switch (bytes[0]) {
    case LOCK: return decodeLock(bytes)
    case COPY: return decodeCopy(bytes)
    case COPY_BEFORE: return decodeCopyBefore(bytes)
    case UNSETTLED: return decodeUnsettled(bytes)
    default: return null
  }
}

export function encodeLock ({ owner, fingerprint, lockedAtMs, attempt }: Lock): Buffer {
  const end = LOCK_PREFIX_BYTES + FINGERPRINT_PREFIX_BYTES + fingerprint.value.length
  const bytes = Buffer.allocUnsafe(attempt === undefined ? end : end + ATTEMPT_BYTES)
  bytes[0] = LOCK
  putOwner(bytes, owner)
  bytes.writeDoubleBE(lockedAtMs, 1 + OWNER_BYTES)
  putFingerprint(bytes, fingerprint, LOCK_PREFIX_BYTES)
  if (attempt !== undefined) bytes.writeUInt32BE(attempt, end)
  return bytes
}

function decodeLock (bytes: Buffer): LockValue | null {
  const rest = decodeFingerprint(bytes, LOCK_PREFIX_BYTES)
  if (rest === null || (rest.end !== bytes.length && rest.end + ATTEMPT_BYTES !== bytes.length)) return null
  const lockedAtMs = bytes.readDoubleBE(1 + OWNER_BYTES)
  const granted = rest.end === bytes.length ? {} : { attempt: bytes.readUInt32BE(rest.end) }
  return { kind: 'lock', lock: { owner: ownerOf(bytes), fingerprint: rest.fingerprint, lockedAtMs, ...granted } }
}

function encodeCopy ({ state, attempt, fingerprint, answer, expiresAtMs, leaseMs, generation, trace }: Copy): Buffer {
  const beginning = beginningOfCopy(generation)
  const at = beginning.length
  const traceAt = at + COPY_PREFIX_BYTES - COPY_BEGINNING_BYTES
  const traced = trace?.length === TRACEPARENT_LENGTH
  const bytes = bytesWithRest(traced ? traceAt + TRACEPARENT_LENGTH : traceAt, fingerprint, answer)
  if (traced) bytes.write(trace, traceAt, 'latin1')
  bytes.set(beginning)
  bytes.writeUInt8(STATES.indexOf(state) + (traced ? TRACED : 0), at)
  bytes.writeUInt32BE(attempt, at + 1)
  bytes.writeDoubleBE(expiresAtMs, at + 5)
  bytes.writeDoubleBE(leaseMs, at + 13)
  return bytes
}

/** How every copy of this generation begins. */
export function beginningOfCopy (generation: number): Buffer {
  if (generation === NO_GENERATION) return Buffer.from([COPY_BEFORE])
  const beginning = Buffer.alloc(COPY_BEGINNING_BYTES)
  beginning[0] = COPY
  beginning.writeDoubleBE(generation, 1)
  return beginning
}

function decodeCopy (bytes: Buffer): LockValue | null {
  const at = COPY_BEGINNING_BYTES
  const number = bytes[at] ?? NaN
  const traced = number >= TRACED
  const state = STATES[traced ? number - TRACED : number]
  const restAt = traced ? COPY_PREFIX_BYTES + TRACEPARENT_LENGTH : COPY_PREFIX_BYTES
  const rest = decodeRest(bytes, restAt)
  if (rest === null || state === undefined) return null
  return {
    kind: 'copy',
    copy: {
      state,
      generation: bytes.readDoubleBE(1),
      attempt: bytes.readUInt32BE(at + 1),
      expiresAtMs: bytes.readDoubleBE(at + 5),
      leaseMs: bytes.readDoubleBE(at + 13),
      ...traced && { trace: bytes.toString('latin1', COPY_PREFIX_BYTES, restAt) },
      ...rest
    }
  }
}

function decodeCopyBefore (bytes: Buffer): LockValue | null {
  const rest = decodeRest(bytes, COPY_BEFORE_PREFIX_BYTES)
  const state = STATES[bytes[1] ?? STATES.length]
  if (rest === null || state === undefined) return null
  return {
    kind: 'copy',
    copy: { state, generation: NO_GENERATION, attempt: bytes.readUInt32BE(2), expiresAtMs: bytes.readDoubleBE(6), leaseMs: 0, ...rest }
  }
}

function encodeUnsettled ({ owner, attempt, fingerprint, keepMs, answer }: UnsettledCopy): Buffer {
  const bytes = bytesWithRest(UNSETTLED_PREFIX_BYTES, fingerprint, answer)
  bytes[0] = UNSETTLED
  putOwner(bytes, owner)
  bytes.writeUInt32BE(attempt, 1 + OWNER_BYTES)
  bytes.writeDoubleBE(keepMs, 1 + OWNER_BYTES + 4)
  return bytes
}

function decodeUnsettled (bytes: Buffer): LockValue | null {
  const rest = decodeRest(bytes, UNSETTLED_PREFIX_BYTES)
  if (rest === null) return null
  const [attempt, keepMs] = [bytes.readUInt32BE(1 + OWNER_BYTES), bytes.readDoubleBE(1 + OWNER_BYTES + 4)]
  return { kind: 'unsettled', copy: { owner: ownerOf(bytes), attempt, keepMs, ...rest } }
}

function ownerOf (bytes: Buffer): Buffer { return bytes.subarray(1, 1 + OWNER_BYTES) }

function putOwner (bytes: Buffer, owner: Buffer): void {
  if (owner.length !== OWNER_BYTES) throw new RangeError(`an owner has ${OWNER_BYTES} bytes`)
  bytes.set(owner, 1)
}

function putFingerprint (bytes: Buffer, { alg, value }: Fingerprint, at: number): void {
  bytes.writeInt16BE(alg, at)
  bytes.writeUInt16BE(value.length, at + 2)
  bytes.set(value, at + FINGERPRINT_PREFIX_BYTES)
}

/** Bytes with room for `prefixBytes`, and the fingerprint and the answer behind it. */
function bytesWithRest (prefixBytes: number, fingerprint: Fingerprint, answer: Answer): Buffer {
  const headers = encodeHeaders(answer.headers)
  const answerAt = prefixBytes + FINGERPRINT_PREFIX_BYTES + fingerprint.value.length
  const bytes = Buffer.allocUnsafe(answerAt + answerBytes(headers, answer.body))
  putFingerprint(bytes, fingerprint, prefixBytes)
  putAnswer(bytes, answerAt, answer.status, headers, answer.body)
  return bytes
}

function decodeFingerprint (bytes: Buffer, at: number): { fingerprint: Fingerprint, end: number } | null {
  const valueAt = at + FINGERPRINT_PREFIX_BYTES
  if (bytes.length < valueAt) return null
  const end = valueAt + bytes.readUInt16BE(at + 2)
  return end > bytes.length ? null : { fingerprint: { alg: bytes.readInt16BE(at), value: bytes.subarray(valueAt, end) }, end }
}

function decodeRest (bytes: Buffer, at: number): { fingerprint: Fingerprint, answer: Answer } | null {
  const read = decodeFingerprint(bytes, at)
  const answer = read === null ? null : decodeAnswer(bytes.subarray(read.end))
  return read === null || answer === null ? null : { fingerprint: read.fingerprint, answer }
}
