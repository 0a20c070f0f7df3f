/**
 * pgpool-II may send a `select` to a replica, and decides by how a statement begins. Everything that the store says to the
 * database, while it opens and while it works, begins with the comment that forbids it; what is no `select` at all may do without.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Client } from 'pg'
import { needs } from '../../harness/needs.ts'
import { startPostgres } from '../../harness/postgres.ts'
import type { PostgresServer } from '../../harness/postgres.ts'
import { messageOf } from '../../conformance/inbox-world.ts'
import { openWorld } from './world.ts'
import { SIGN } from '../../harness/sign.ts'

/** What pgpool never balances: no `select`, no `with`, or within a transaction that has begun (migrations). */
const NO_READ =
  /^\s*(?:begin|commit|rollback|set|listen|unlisten|insert|update|delete|create|alter|analyze|--|lock|select (?:set_config|pg_advisory))/i

describe('behind a pooler that balances reads', needs('own postgres'), () => {
  let server: Promise<PostgresServer> | null = null
  after(async () => { await (await server)?.stop() })

  test('no statement of the store is one that it would balance: not the looks, not the inbox\'s, not those of a start', async (t) => {
    const started = await (server ??= startPostgres())
    const said: string[] = []
    const { query } = Client.prototype
    Client.prototype.query = function (this: Client, ...args: Parameters<typeof query>) {
      const [first] = args as unknown as [string | { readonly text: string }]
      said.push(typeof first === 'string' ? first : first.text)
      return query.apply(this, args)
    } as typeof query
    t.after(() => { Client.prototype.query = query })
    const { store } = await openWorld(t, started)
    const id = Buffer.alloc(32, 1)
    await store.beat(SIGN)
    assert.equal(await store.look(id), null)
    const written = messageOf()
    await store.inbox.accept(written)
    assert.notEqual(await store.inbox.look(written.id), null)
    const cancel = await store.subscriptions.watch(() => {})
    cancel()
    const reads = said.filter((text) => !NO_READ.test(text))
    assert.ok(reads.length > 8, `${reads.length} statements`)
    assert.deepEqual(reads.filter((text) => !text.startsWith('/*NO LOAD BALANCE*/ ')), [])
  })
})
