/** Takes orders. Writes each order and its event in one transaction. */
import { Pool } from 'pg'
import type { PoolClient } from 'pg'

const { DATABASE_URL, ORDERS = '1000' } = process.env
const AT_ONCE = 8
const CUSTOMERS = 100
/**
 * Every 49th visitor rolls back after all rows are written. 49 and the number of customers have no common factor, so it is another customer
 * each time.
 */
const TURNS_AWAY_EVERY = 49

const pool = new Pool({ connectionString: DATABASE_URL, max: AT_ONCE })
let [visitors, orders] = [0, 0]

console.log('shop is open')
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  const client = await pool.connect()
  while (orders < Number(ORDERS)) await serve(client, ++visitors)
  client.release()
}))
await pool.end()

async function serve (client: PoolClient, visitor: number): Promise<void> {
  const turnsAway = visitor % TURNS_AWAY_EVERY === 0
  if (!turnsAway) orders++
  await client.query('begin')
  // Locks the customer's row until the commit, so that the outbox has the customer's events in the order of the orders.
  const { rows: [customer] } = await client.query<{ id: number, number: number }>(`
    insert into customers (id) values ($1) on conflict (id) do update set orders = customers.orders + 1 returning id, orders as number`, [
    visitor % CUSTOMERS
  ])
  const values = [customer?.id, customer?.number]
  await client.query('insert into orders (customer, number) values ($1, $2)', values)
  await client.query(`
    insert into outbox (topic, customer, number, payload)
    values ('orders', $1, $2, jsonb_build_object('type', 'order.placed', 'customer', $1::integer, 'number', $2::integer))`, values)
  await client.query(turnsAway ? 'rollback' : 'commit')
}
