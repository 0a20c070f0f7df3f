/**
 * Sends the events of the outbox through the gateway, at least once. If the relay is killed between an answer and its commit, it sends the
 * batch again. A batch has only the oldest unsent event of each customer. So a customer's events stay in order, and a refused event delays
 * that customer only. Several relays may run.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Client } from 'pg'

const { DATABASE_URL, GATEWAY_URL = 'http://127.0.0.1:8080' } = process.env
const BATCH = 50
const IDLE_MS = 50
const TIMEOUT_MS = 10_000

interface Event { readonly id: string, readonly topic: string, readonly payload: object }

const client = new Client({ connectionString: DATABASE_URL })
await client.connect()
console.log('relay runs')
for (;;) if (await sendBatch() === 0) await pause(IDLE_MS)

async function sendBatch (): Promise<number> {
  await client.query('begin')
  const { rows } = await client.query<Event>(`
    select id, topic, payload from outbox
    where state <> 'sent' and next_attempt_at <= now()
      and not exists (select from outbox earlier where earlier.customer = outbox.customer and earlier.state <> 'sent' and earlier.position < outbox.position)
    order by position limit $1
    for update skip locked`, [BATCH])
  const errors = await Promise.all(rows.map(send))
  await client.query(`
    update outbox set
      state = case when error is null then 'sent' else 'retry' end,
      sent_at = case when error is null then clock_timestamp() end,
      attempts = attempts + 1,
      next_attempt_at = clock_timestamp() + least(interval '1 minute', interval '100 milliseconds' * 2 ^ attempts),
      last_error = error
    from unnest($1::uuid[], $2::text[]) as result (event, error)
    where id = event`, [rows.map(({ id }) => id), errors])
  await client.query('commit')
  return rows.length
}

/** null: the event has arrived. Otherwise the error. */
async function send ({ id, topic, payload }: Event): Promise<string | null> {
  try {
    const answer = await fetch(`${GATEWAY_URL}/events/${topic}`, {
      method: 'POST',
      headers: { 'Idempotency-Key': id, 'Content-Type': 'application/json' },
      body: JSON.stringify({ id, ...payload }),
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    await answer.text()
    return answer.ok ? null : `status ${answer.status}`
  } catch (error) {
    return String(error)
  }
}
