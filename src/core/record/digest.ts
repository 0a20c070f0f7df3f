/**
 * One SHA-256 over several parts. Each part is framed by its length, so two different lists never have the same bytes: ('ab', 'c') and
 * ('a', 'bc') differ. It does not protect secrets: a digest of a guessable value can be guessed.
 */
import { createHash, createHmac, hash } from 'node:crypto'
import type { Hash, Hmac } from 'node:crypto'

/** Six bytes hold any length of a Buffer (four end at 4 GiB). */
const FRAME_BYTES = 6
/** Up to this size the parts are copied together first: one call instead of two per part. Above, copying costs more than it saves. */
const TOGETHER_BYTES_MAX = 8 * 1024
const together = Buffer.allocUnsafeSlow(TOGETHER_BYTES_MAX)

/** SHA-256 over every part, in order, each behind its length in bytes (text as UTF-8). 32 bytes. */
export function framedDigest (parts: ReadonlyArray<string | Buffer>): Buffer {
  return framedBytesMax(parts) <= TOGETHER_BYTES_MAX ? digestOf(together.subarray(0, frame(parts, 0))) : digestApart(parts)
}

/** SHA-256 works on blocks of this size, and so do the two paddings of an HMAC. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
const INNER = 0x36
const OUTER = 0x5c

/**
 * The same under a key: HMAC-SHA-256 (RFC 2104), made of two digests. An Hmac of node:crypto costs twelve times as much (19 and 1.5 µs for
 * an id, Node 24). Its garbage costs as much again.
 */
export function framedHmac (key: Buffer, parts: ReadonlyArray<string | Buffer>): Buffer {
  if (key.length > BLOCK_BYTES || BLOCK_BYTES + framedBytesMax(parts) > TOGETHER_BYTES_MAX) {
    return digestApart(parts, createHmac('sha256', key))
  }
  pad(key, INNER)
  const inner = hash('sha256', together.subarray(0, frame(parts, BLOCK_BYTES)), 'binary')
  pad(key, OUTER)
  for (let at = 0; at < DIGEST_BYTES; at++) together[BLOCK_BYTES + at] = inner.charCodeAt(at)
  return digestOf(together.subarray(0, BLOCK_BYTES + DIGEST_BYTES))
}

function pad (key: Buffer, byte: number): void {
  const { length } = key
  for (let at = 0; at < length; at++) together[at] = (key[at] ?? 0) ^ byte
  for (let at = length; at < BLOCK_BYTES; at++) together[at] = byte
}

/** UTF-8 makes at most three bytes of a UTF-16 unit. A count of the bytes is a call for each part. */
const UTF8_BYTES_MAX = 3

function framedBytesMax (parts: ReadonlyArray<string | Buffer>): number {
  let bytes = 0
  for (const part of parts) bytes += FRAME_BYTES + (typeof part === 'string' ? part.length * UTF8_BYTES_MAX : part.length)
  return bytes
}

/** Writes the parts into the shared buffer from `at` on. Returns the end. */
function frame (parts: ReadonlyArray<string | Buffer>, at: number): number {
  for (const part of parts) {
    const from = at + FRAME_BYTES
    const length = typeof part === 'string' ? writeText(part, from) : writeBytes(part, from)
    writeLength(length, at)
    at = from + length
  }
  return at
}

/** Big-endian. No length in the shared buffer needs more than two bytes. */
function writeLength (length: number, at: number): void {
  for (let byte = 0; byte < FRAME_BYTES - 2; byte++) together[at + byte] = 0
  together[at + FRAME_BYTES - 2] = length >> 8
  together[at + FRAME_BYTES - 1] = length & 0xff
}

function writeBytes (bytes: Buffer, at: number): number {
  together.set(bytes, at)
  return bytes.length
}

/** Up to this length a loop over ASCII is faster than a call into the runtime (Node 24). */
const LOOPED_CHARS_MAX = 64
const ASCII_MAX = 0x7f

function writeText (text: string, at: number): number {
  if (text.length > LOOPED_CHARS_MAX) return together.write(text, at, 'utf8')
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code > ASCII_MAX) return together.write(text, at, 'utf8')
    together[at + index] = code
  }
  return text.length
}

/** By way of text: a Buffer of its own from OpenSSL costs twice as much as the digest (measured, Node 24). */
function digestOf (bytes: Buffer): Buffer {
  return Buffer.from(hash('sha256', bytes, 'binary'), 'latin1')
}

function digestApart (parts: ReadonlyArray<string | Buffer>, digest: Hash | Hmac = createHash('sha256')): Buffer {
  const length = Buffer.allocUnsafe(FRAME_BYTES)
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part
    length.writeUIntBE(bytes.length, 0, FRAME_BYTES)
    digest.update(length).update(bytes)
  }
  return digest.digest()
}
