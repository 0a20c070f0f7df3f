/**
 * A consumer that handles repeated deliveries of an inbox. It stores the message's `Onceway-Key` in the transaction of its change. A
 * repeated message is acknowledged without a change. LEDGER: a file with one line per delivery, written before the change.
 */
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { DatabaseSync } from 'node:sqlite'
import { json } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'

const { PORT = '3000', DATABASE = 'consumer.db', LEDGER = 'ledger.txt' } = process.env
/** Every 100th change fails in the middle of its transaction, which rolls back. */
const FAULT_EVERY = 100
/** This share of its answers is slow. */
const SLOW_SHARE = 0.01
const SLOW_MS = 300
/** Maximum pause before the other answers. */
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

/** Commits the key and the change together, or neither. */
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
