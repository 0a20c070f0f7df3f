/**
 * A consumer that may be asked again, as an inbox does: what it has done stands in its database, under the message's
 * `Onceway-Key`, in the transaction of the deed. A message that comes again finds it there and is acknowledged without one.
 * LEDGER is the file of all that has arrived, a line for each delivery, before anything is done.
 */
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'

const { PORT = '3000', DATABASE = 'consumer.db', LEDGER = 'ledger.txt' } = process.env
/** Every so many deeds it fails when it has already begun: nothing of that stays. */
const FAULT_EVERY = 100
/** Now and then it is slow: so often, and so long. */
const SLOW_SHARE = 0.01
const SLOW_MS = 300
/** Between the deed and the answer otherwise, at most. */
const ANSWER_MS_MAX = 40

let begun = 0
const database = new DatabaseSync(DATABASE)
database.exec(`
  pragma journal_mode = wal;
  create table if not exists processed_messages (onceway_key text primary key);
  create table if not exists shipments (position integer primary key, event text not null);
`)
const remember = database.prepare('insert into processed_messages (onceway_key) values (?) on conflict do nothing')
const ship = database.prepare('insert into shipments (event) values (?)')

const server = createServer((request, response) => {
  handle(request, response).catch(() => { response.writeHead(500).end() })
})
server.listen(Number(PORT), '127.0.0.1', () => { console.log(`consumer on http://127.0.0.1:${PORT}`) })

async function handle (request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { id } = await json(request) as { id: string }
  const { 'onceway-key': key, 'idempotency-attempt': attempt } = request.headers
  appendFileSync(LEDGER, `${JSON.stringify({ id, key, attempt })}\n`)
  once(String(key), () => {
    ship.run(id)
    if (++begun % FAULT_EVERY === 0) throw new Error('the deed has failed in the middle')
  })
  await pause(Math.random() < SLOW_SHARE ? SLOW_MS : Math.random() * ANSWER_MS_MAX)
  response.writeHead(200, { 'Content-Type': 'application/json' }).end('{"done":true}')
}

/** The key and the deed: both, or neither. */
function once (key: string, deed: () => void): void {
  database.exec('begin immediate')
  try {
    if (remember.run(key).changes === 1) deed()
    database.exec('commit')
  } catch (error) {
    database.exec('rollback')
    throw error
  }
}
