/**
 * One SHA-256 over several parts, each framed by its length, so that no two different lists of parts are the same bytes:
 * ('ab', 'c') and ('a', 'bc') differ. Never a secret's safe: a digest of a guessable value can be guessed.
 */
import { createHash } from 'node:crypto'

/** SHA-256 over every part, in order, each behind its length in bytes (text as UTF-8). 32 bytes. */
export function framedDigest (parts: ReadonlyArray<string | Buffer>): Buffer {
  const hash = createHash('sha256')
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part
    hash.update(frame(bytes.length)).update(bytes)
  }
  return hash.digest()
}

/** Six bytes hold any length that a Buffer can have (four end at 4 GiB). */
const FRAME_BYTES = 6

function frame (length: number): Buffer {
  const bytes = Buffer.allocUnsafe(FRAME_BYTES)
  bytes.writeUIntBE(length, 0, FRAME_BYTES)
  return bytes
}
