/** Takes orders. The order and the event that tells of it are one transaction: there are both, or neither. */
import { Pool } from 'pg'
import type { PoolClient } from 'pg'

const { DATABASE_URL, ORDERS = '1000' } = process.env
const AT_ONCE = 8
/** Every so many customers turn away at the last moment, when both rows have been written. */
const TURNS_AWAY_EVERY = 50

const pool = new Pool({ connectionString: DATABASE_URL, max: AT_ONCE })
let [customers, orders] = [0, 0]

console.log('shop is open')
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  const client = await pool.connect()
  while (orders < Number(ORDERS)) await serve(client, ++customers)
  client.release()
}))
await pool.end()

async function serve (client: PoolClient, customer: number): Promise<void> {
  const turnsAway = customer % TURNS_AWAY_EVERY === 0
  if (!turnsAway) orders++
  await client.query('begin')
  await client.query('insert into orders (customer) values ($1)', [customer])
  await client.query("insert into outbox (topic, payload) values ('orders', jsonb_build_object('type', 'order.placed', 'customer', $1::integer))", [customer])
  await client.query(turnsAway ? 'rollback' : 'commit')
}
