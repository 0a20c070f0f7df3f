/**
 * An answer too large to keep, whose settle was fenced by somebody's stored answer: the waiters got the stored one, nobody
 * read the stream, and its connection to the upstream was held for ever. As many of these as connections, and the route
 * stood still.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { encodeHeaders } from '../../src/core/protocol/codec.ts'
import type { Settlement } from '../../src/core/record/record.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { faulty } from '../harness/faulty-store.ts'
import { startGuarded } from '../harness/gateway.ts'
import { CREATED } from '../harness/witness.ts'

/** More than any buffer on the way takes: unless somebody reads, the upstream never gets rid of it. */
const LARGE = Buffer.alloc(16 * 1024 * 1024, 'large ')
/** Of a request that would otherwise wait for the connection until upstream.timeout. */
const SOON_MS = 4_000

test('a fenced execution whose answer is a stream gives the stored answer and lets its connection go', async (t) => {
  const inner = new MemoryStore({ nowMs: Date.now })
  const records = faulty(inner)
  const { ask, witness } = await startGuarded(t, {
    background: false,
    upstream: { connectionsMax: 1 },
    answer: (_seen, response) => { response.writeHead(201).end(LARGE) },
    world: { records: records.store }
  })
  records.faults.set('settle', async (_proceed, [mine]) => {
    const { token } = mine as Settlement
    await inner.settle({
      token,
      outcome: 'completed',
      keepMs: 60_000,
      status: 200,
      headers: encodeHeaders([]),
      body: Buffer.from('the stored one'),
      reason: null
    })
    const row = await inner.look(token.id)
    return { kind: 'refused', row: { ...row, owner: Buffer.alloc(16, 7) } }
  })
  const fenced = await ask('fenced')
  assert.equal(fenced.text, 'the stored one')
  assert.equal(fenced.headers['idempotent-replayed'], 'true')
  records.faults.clear()
  witness.answer = CREATED
  const next = await ask('next', { signal: AbortSignal.timeout(SOON_MS) })
  assert.equal(next.headers['idempotency-status'], 'executed')
  assert.equal(witness.seen.length, 2)
})
