/** The digests are those of the standards, on the fast path too. */
import assert from 'node:assert/strict'
import { createHash, createHmac, randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { framedDigest, framedHmac } from '../../../src/core/record/digest.ts'

function framed (parts: ReadonlyArray<string | Buffer>): Buffer {
  return Buffer.concat(parts.flatMap((part) => {
    const bytes = Buffer.from(part)
    const length = Buffer.alloc(6)
    length.writeUIntBE(bytes.length, 0, 6)
    return [length, bytes]
  }))
}

/** Around the bound up to which parts are copied together, and around a block. */
const SIZES = [0, 1, 31, 32, 63, 64, 65, 100, 8_100, 8_122, 8_123, 8_185, 8_186, 8_187, 9_000, 100_000]

test('a framed digest is SHA-256, and under a key HMAC-SHA-256, of the same bytes, for keys and parts of every size', () => {
  for (const size of SIZES) {
    for (const parts of [[randomBytes(size)], ['route', 'ä'.repeat(size / 2), randomBytes(3)], []]) {
      assert.deepEqual(framedDigest(parts), createHash('sha256').update(framed(parts)).digest())
      for (const keyBytes of [0, 16, 32, 63, 64, 65, 200]) {
        const key = randomBytes(keyBytes)
        assert.deepEqual(framedHmac(key, parts), createHmac('sha256', key).update(framed(parts)).digest(), `${keyBytes} and ${size} bytes`)
      }
    }
  }
})
