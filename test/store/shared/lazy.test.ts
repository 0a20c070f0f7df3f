/** Stores before their database is reached, and afterwards: every method of a port, also those that it gets later. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { StoreNotOpened } from '../../../src/ports/errors.ts'
import type { LockStore } from '../../../src/ports/locks.ts'
import type { RecordStore } from '../../../src/ports/records.ts'
import { lazyInbox, lazyLocks, lazyRecords, lazyRegistry } from '../../../src/store/shared/lazy.ts'

const ID = Buffer.alloc(32, 1)

function notOpened (error: unknown): boolean {
  return error instanceof StoreNotOpened && !error.inDoubt && !error.answered
}

test('until it is opened every call rejects, certain that nothing was written', async () => {
  const { port } = lazyRecords('postgres')
  assert.equal(port.name, 'postgres')
  await assert.rejects(port.look(ID), notOpened)
  await assert.rejects(port.sweep(1), { message: 'postgres: sweep failed: it is not opened yet' })
  assert.throws(() => port.installation, notOpened)
  await assert.rejects(lazyInbox('sqlite').port.depths(), notOpened)
})

test('what ends needs nothing to be opened', async () => {
  await lazyRecords('postgres').port.close()
  await lazyInbox('postgres').port.gone(ID)
  await lazyRegistry().port.withdraw(ID)
})

test('once it is opened a call has its arguments, its result and its own object', async () => {
  class Records {
    readonly installation = 'i'
    readonly #swept = 7
    async sweep (limit: number): Promise<number> { return this.#swept + limit }
    look (): never { throw new Error('at once') }
  }
  const { port, open } = lazyRecords('sqlite')
  const before = port.sweep
  open(new Records() as unknown as RecordStore)
  assert.equal(port.installation, 'i')
  assert.deepEqual([await port.sweep(1), await before(2)], [8, 9])
  await assert.rejects(port.look(ID), /at once/, 'a rejection, whatever the store did')
  assert.equal(port.sweep, before, 'the same function every time')
})

test('an await passes a port on as it is', async () => {
  const { port } = lazyRecords('sqlite')
  assert.equal(await Promise.resolve(port), port)
})

test('no lock is available before, and nothing rejects', async () => {
  const { port, open } = lazyLocks()
  assert.deepEqual([port.name, port.mirror, port.available()], ['none', undefined, false])
  assert.deepEqual(await port.lock(ID, { owner: ID, attempt: 1, expiresAtMs: 0 } as never, 1), { kind: 'unavailable' })
  open({ name: 'redis', available: () => true } as unknown as LockStore)
  assert.deepEqual([port.name, port.available()], ['redis', true])
})
