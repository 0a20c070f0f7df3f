import { readFileSync } from 'node:fs'
import type { Example } from './example.ts'
import { moving } from './killer.ts'
import { receiver } from './receiver.ts'

/** When all are sent, every 18th event is sent again by hand. */
const AGAIN_EVERY = 18
const SCHEMA = readFileSync(new URL('../outbox/schema.sql', import.meta.url), 'utf8')

export const outbox: Example = async (setting) => {
  const { stage, size } = setting
  const [postgres, redis] = await Promise.all([stage.ground.postgres(), stage.ground.redis()])
  const [ours, theirs] = await Promise.all([postgres.createDatabase('shop'), postgres.createDatabase('onceway')])
  const query = await stage.database(ours)
  await query(SCHEMA)
  const { url, progress, killUntil, verdict } = await receiver('outbox', { DATABASE_URL: theirs, REDIS_URL: redis.url }, setting)
  const relay = await stage.program('outbox/relay.ts', { DATABASE_URL: ours, GATEWAY_URL: url })
  const shop = await stage.program('outbox/shop.ts', { DATABASE_URL: ours, ORDERS: String(size) })

  const allSent = async () => {
    relay.check()
    return shop.ended && (await query("select from outbox where state <> 'sent' limit 1")).length === 0
  }
  await killUntil(relay, allSent)
  // An operator resets some events to be sent again.
  const again = await query(`update outbox set state = 'retry', next_attempt_at = now() where position % ${AGAIN_EVERY} = 0 returning id`)
  await moving(progress, allSent)

  const events = await query('select id, customer, attempts from outbox order by customer, number')
  const [counted] = await query('select count(*)::integer as orders from orders')
  const judged = await verdict(events.map(({ id, customer }) => ({ id: String(id), group: String(customer) })), [
    `${again.length} sent again by hand`,
    `${events.filter(({ attempts }) => Number(attempts) > 1).length} events took more than one attempt of the relay`
  ])
  return counted?.orders === size && events.length === size
    ? judged
    : { ...judged, wrong: [...judged.wrong, `${counted?.orders} orders and ${events.length} events`] }
}
