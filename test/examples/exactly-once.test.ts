import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { Stage } from '../../examples/run/stage.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { playedRight } from './played.ts'

const SCHEMA = readFileSync(new URL('../../examples/exactly-once/schema.sql', import.meta.url), 'utf8')

interface Account {
  readonly send: (
    key: string,
    attempt: number,
    amount: number
  ) => Promise<{ readonly status: number, readonly body: { readonly id?: string } }>
  readonly balance: () => Promise<number>
}

describe('the example exactly-once', needs('postgres', 'redis'), () => {
  test(
    'whoever is killed, gateways or upstream: every payment is made once, and each tenant has his balance',
    async (t) => playedRight(t, 'exactly-once')
  )

  describe('its upstream', () => {
    const stage = new Stage()
    let open: (tenant: string) => Promise<Account>

    before(async () => {
      const database = await (await stage.ground.postgres()).createDatabase('payments')
      const query = await stage.database(database)
      await query(SCHEMA)
      const port = await freePort()
      await stage.program('exactly-once/upstream.ts', { DATABASE_URL: database, PORT: String(port) })
      open = async (tenant) => {
        await query(`insert into accounts (tenant) values ('${tenant}')`)
        return {
          send: async (key, attempt, amount) => {
            const headers = { Authorization: `Bearer ${tenant}`, 'Onceway-Key': `${tenant}-${key}`, 'Idempotency-Attempt': String(attempt) }
            const response = await fetch(`http://127.0.0.1:${port}/v1/payments`, {
              method: 'POST',
              headers,
              body: JSON.stringify({ reference: key, amount })
            })
            return { status: response.status, body: await response.json() as object }
          },
          balance: async () => Number((await query(`select balance from accounts where tenant = '${tenant}'`))[0]?.balance)
        }
      }
    })
    after(async () => stage.clear())

    test('gives a later attempt the answer of the one that made the payment', async () => {
      const { send, balance } = await open('ada')
      const first = await send('a', 1, 100)
      const later = await send('a', 2, 100)
      assert.deepEqual([first.status, later], [201, first])
      assert.equal(await balance(), 100)
    })

    test('makes one payment of attempts that come at once, in whichever order', async () => {
      const { send, balance } = await open('bob')
      const all = await Promise.all([2, 1, 3, 2, 1].map(async (attempt) => send('a', attempt, 100)))
      assert.equal(new Set(all.map(({ status, body }) => `${status} ${body.id}`)).size, 1)
      assert.equal(await balance(), 100)
    })

    test('makes no payment for an attempt that comes after a later one was told that nothing was changed', async () => {
      const { send, balance } = await open('cid')
      assert.equal((await send('a', 2, -5)).status, 500, 'the account has nothing to give')
      await send('b', 1, 100)
      assert.equal((await send('a', 1, -5)).status, 409)
      assert.equal((await send('a', 2, -5)).status, 409)
      assert.equal(await balance(), 100)
      assert.equal((await send('a', 3, -5)).status, 201)
      assert.equal(await balance(), 95)
    })
  })
})
