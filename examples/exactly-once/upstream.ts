/**
 * A payments API whose effects are exactly once behind a gateway that retries. It stores Onceway-Key and Idempotency-Attempt in the
 * transaction of its change.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { Pool } from 'pg'
import type { PoolClient } from 'pg'

const { PORT = '3000', DATABASE_URL } = process.env
const CONNECTIONS = 16
/** Maximum duration of a payment. */
const WORK_MS_MAX = 10

interface Payment { readonly reference: string, readonly amount: number }
interface Answer { readonly status: number, readonly body: object }

const pool = new Pool({ connectionString: DATABASE_URL, max: CONNECTIONS })
pool.on('error', () => {})
const server = createServer((request, response) => { void handle(request, response) })
server.listen(Number(PORT), '127.0.0.1', () => { console.log(`payments on http://127.0.0.1:${PORT}`) })

async function handle (request: IncomingMessage, response: ServerResponse): Promise<void> {
  try {
    const tenant = String(request.headers.authorization).replace('Bearer ', '')
    const [key, attempt] = [String(request.headers['onceway-key']), Number(request.headers['idempotency-attempt'])]
    const payment = await json(request) as Payment
    const { status, body } = await once(key, attempt, async (client) => pay(client, tenant, payment))
    response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
  } catch {
    // The commit may have succeeded, so any answer could be wrong. Closes the connection instead.
    response.destroy()
  }
}

/** Runs `change` once per key, for any number and order of attempts. */
async function once (key: string, attempt: number, change: (client: PoolClient) => Promise<object>): Promise<Answer> {
  const client = await pool.connect()
  let sound = false
  try {
    await client.query('begin')
    const answer = await inTransaction(client, key, attempt, change)
    await client.query('commit')
    sound = true
    return answer
  } finally {
    client.release(!sound)
  }
}

async function inTransaction (
  client: PoolClient,
  key: string,
  attempt: number,
  change: (client: PoolClient) => Promise<object>
): Promise<Answer> {
  // A concurrent attempt has locked the row. This waits until it commits or rolls back.
  const { rows: [begun] } = await client.query<{ answer: object | null }>(`
    insert into processed_messages as known (key, attempt) values ($1, $2)
    on conflict (key) do update set attempt = excluded.attempt where known.attempt < excluded.attempt
    returning answer`, [key, attempt])
  const answer = begun === undefined ? await answerOf(client, key) : begun.answer
  if (answer !== null) return { status: 201, body: answer }
  // A later attempt has begun, and has seen that nothing was changed. That must stay true.
  if (begun === undefined) return { status: 409, body: { error: 'a later attempt has begun' } }
  await client.query('savepoint change')
  try {
    const body = await change(client)
    await client.query('update processed_messages set answer = $2 where key = $1', [key, body])
    return { status: 201, body }
  } catch {
    // Undoes the change. The attempt stays.
    await client.query('rollback to savepoint change')
    return { status: 500, body: { error: 'nothing was changed' } }
  }
}

async function answerOf (client: PoolClient, key: string): Promise<object | null> {
  const { rows } = await client.query<{ answer: object | null }>('select answer from processed_messages where key = $1', [key])
  return rows[0]?.answer ?? null
}

/** The payment itself. It does not know about attempts. */
async function pay (client: PoolClient, tenant: string, { reference, amount }: Payment): Promise<object> {
  await pause(Math.random() * WORK_MS_MAX)
  const { rows: [payment] } = await client.query<{ id: string }>(
    'insert into payments (tenant, reference, amount) values ($1, $2, $3) returning id',
    [tenant, reference, amount]
  )
  await client.query('update accounts set balance = balance + $2 where tenant = $1', [tenant, amount])
  return { id: payment?.id, reference, amount }
}
