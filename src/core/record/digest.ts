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
  const bytes = framedBytes(parts)
  return bytes <= TOGETHER_BYTES_MAX ? digestOf(together.subarray(0, frame(parts, 0))) : digestApart(parts)
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
  if (key.length > BLOCK_BYTES || BLOCK_BYTES + framedBytes(parts) > TOGETHER_BYTES_MAX) {
    return digestApart(parts, createHmac('sha256', key))
  }
  pad(key, INNER)
  const inner = hash('sha256', together.subarray(0, frame(parts, BLOCK_BYTES)), 'binary')
  pad(key, OUTER)
  together.write(inner, BLOCK_BYTES, 'latin1')
  return digestOf(together.subarray(0, BLOCK_BYTES + DIGEST_BYTES))
}

function pad (key: Buffer, byte: number): void {
  for (let at = 0; at < BLOCK_BYTES; at++) together[at] = (key[at] ?? 0) ^ byte
}

function framedBytes (parts: ReadonlyArray<string | Buffer>): number {
  let bytes = 0
  for (const part of parts) bytes += FRAME_BYTES + (typeof part === 'string' ? Buffer.byteLength(part, 'utf8') : part.length)
  return bytes
}

/** Writes the parts into the shared buffer from `at` on. Returns the end. */
function frame (parts: ReadonlyArray<string | Buffer>, at: number): number {
  for (const part of parts) {
    const from = at + FRAME_BYTES
    const length = typeof part === 'string' ? together.write(part, from, 'utf8') : part.copy(together, from)
    together.writeUIntBE(length, at, FRAME_BYTES)
    at = from + length
  }
  return at
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
