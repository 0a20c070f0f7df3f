/**
 * The outbox as most people write it: a row for a message, and workers that take one, send it and put it away in one
 * transaction. It sends again whatever a crash undoes, keeps no order, and never gives up.
 */
import Fastify from 'fastify'
import pg from 'pg'
import { Pool } from 'undici'

const { UPSTREAM = '', DATABASE_URL = '', DELIVERIES = '1' } = process.env

/** The pool's own default, for the door. */
const CONNECTIONS = 10
/** Each holds a connection for as long as its consumer takes, and a server has a hundred by default. */
const WORKERS_MAX = 32
const POLL_MS = 1_000

interface Row { readonly id: string, readonly key: string, readonly type: string, readonly path: string, readonly body: string }

const workers = Math.min(Number(DELIVERIES), WORKERS_MAX)
const door = new pg.Pool({ connectionString: DATABASE_URL, max: CONNECTIONS })
const database = new pg.Pool({ connectionString: DATABASE_URL, max: workers })
const upstream = new Pool(UPSTREAM, { connections: workers })
await door.query(`
  create table if not exists outbox (id bigserial primary key, key text unique, path text not null, type text, body text not null, sent_at timestamptz);
  create index if not exists outbox_waiting on outbox (id) where sent_at is null`)

let held = false
const sleeping: Array<() => void> = []
process.on('SIGUSR2', () => { held = true; console.log('deliveries are held') })
process.on('SIGHUP', () => {
  held = false
  console.log('deliveries are free')
  for (const wake of sleeping.splice(0)) wake()
})

const server = Fastify({ logger: false })
server.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) => { done(null, body) })
server.post('/*', async (request, reply) => {
  const { 'idempotency-key': key, 'content-type': type } = request.headers
  await door.query(
    'insert into outbox (key, path, type, body) values ($1, $2, $3, $4) on conflict (key) do nothing',
    [key, request.url, type, request.body]
  )
  sleeping.shift()?.()
  return reply.code(202).send({ key })
})
console.log(`listens on ${await server.listen({ host: '127.0.0.1', port: 0 })}`)
for (let worker = 0; worker < workers; worker++) void work()

async function work (): Promise<never> {
  for (;;) {
    const worked = !held && await deliverOne().catch((error: unknown) => { console.error(String(error)); return false })
    if (!worked) await sleep()
  }
}

async function deliverOne (): Promise<boolean> {
  const client = await database.connect()
  try {
    await client.query('begin')
    const { rows: [row] } = await client.query<Row>(
      'select id, key, path, type, body from outbox where sent_at is null order by id limit 1 for update skip locked'
    )
    if (row !== undefined) {
      await send(row)
      await client.query('update outbox set sent_at = now() where id = $1', [row.id])
    }
    await client.query('commit')
    return row !== undefined
  } catch (error) {
    await client.query('rollback')
    throw error
  } finally {
    client.release()
  }
}

async function send ({ key, path, type, body }: Row): Promise<void> {
  const answer = await upstream.request({ path, method: 'POST', headers: { 'content-type': type, 'idempotency-key': key }, body })
  await answer.body.dump()
  if (answer.statusCode >= 300) throw new Error(`the consumer says ${answer.statusCode}`)
}

async function sleep (): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, POLL_MS)
    sleeping.push(() => { clearTimeout(timer); resolve() })
  })
}
