/** A released key is free at once: its retry neither joins the finished execution nor meets its lock. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startGuarded } from '../../harness/gateway.ts'
import { CREATED } from '../../harness/witness.ts'
import { MemoryLocks } from '../../../src/store/memory/locks.ts'

class SlowToUnlock extends MemoryLocks {
  override async unlock (id: Buffer, owner: Buffer): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 50))
    await super.unlock(id, owner)
  }
}

test('the retry that follows a 503 of the application on its heels is executed', async (t) => {
  const locks = new SlowToUnlock({ nowMs: Date.now })
  const { ask, witness } = await startGuarded(t, {
    world: { locks },
    answer: (seen, response, socket, count) => {
      if (count > 1) return CREATED(seen, response, socket, count)
      response.writeHead(503, { 'Retry-After': '0' }).end()
    }
  })
  assert.equal((await ask('k')).headers['idempotency-status'], 'released')
  assert.equal((await ask('k')).status, 201)
  assert.equal(witness.seen.length, 2)
})
