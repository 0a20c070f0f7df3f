import { readFileSync } from 'node:fs'
import type { Example } from './example.ts'
import { duplicatesAt } from './door.ts'
import { judge } from './judge.ts'
import { killUntilFinished, moving } from './killer.ts'

/** So many more are executed between two kills of the relay, at least and at most: that is two to ten of its batches. */
const BETWEEN_KILLS = [100, 500] as const
/** Every so many is sent once more by hand, when all have been sent. */
const AGAIN_EVERY = 18
const SCHEMA = readFileSync(new URL('../outbox/schema.sql', import.meta.url), 'utf8')

export const outbox: Example = async ({ stage, size, random }) => {
  const [postgres, redis, consumer] = await Promise.all([stage.postgres(), stage.redis(), stage.consumer()])
  const [ours, theirs] = await Promise.all([postgres.createDatabase('shop'), postgres.createDatabase('onceway')])
  const query = await stage.database(ours)
  await query(SCHEMA)
  const gateway = await stage.gateway('outbox', { DATABASE_URL: theirs, REDIS_URL: redis.url, ONCEWAY_UPSTREAMS_CONSUMER_URL: consumer.url })
  const relay = await stage.program('outbox/relay.ts', { DATABASE_URL: ours, GATEWAY_URL: gateway.url })
  const shop = await stage.program('outbox/shop.ts', { DATABASE_URL: ours, ORDERS: String(size) })

  const progress = () => consumer.ledger.count()
  const allSent = async () => {
    relay.check()
    return shop.ended && (await query("select from outbox where state <> 'sent' limit 1")).length === 0
  }
  const kills = await killUntilFinished({ random, progress, between: BETWEEN_KILLS, strike: async () => relay.restart(), finished: allSent })
  // Somebody is not sure what has arrived, and has some of it sent again.
  const again = await query(`update outbox set state = 'retry', next_attempt_at = now() where position % ${AGAIN_EVERY} = 0 returning id`)
  await moving(progress, allSent)

  const events = await query('select id, attempts from outbox')
  const [counted] = await query('select count(*)::integer as orders from orders')
  const verdict = judge(events.map(({ id }) => String(id)), consumer.ledger.all(), await duplicatesAt(gateway), [
    `relay killed ${kills} times`, `${again.length} sent again by hand`, `${events.filter(({ attempts }) => Number(attempts) > 1).length} events took more than one attempt`
  ])
  return counted?.orders === size && events.length === size ? verdict : { ...verdict, wrong: [...verdict.wrong, `${counted?.orders} orders and ${events.length} events`] }
}
