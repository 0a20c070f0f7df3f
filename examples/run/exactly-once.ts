import { readFileSync } from 'node:fs'
import { freePort } from '../../test/harness/ports.ts'
import type { Example } from './example.ts'
import { judgePayments } from './judge-payments.ts'
import type { Books, Payment } from './judge-payments.ts'
import { killUntilFinished } from './killer.ts'
import { Seat } from './seat.ts'

const SCHEMA = readFileSync(new URL('../exactly-once/schema.sql', import.meta.url), 'utf8')
const TENANTS = ['ada', 'bob']
/** Least and most payments between two kills. */
const BETWEEN_KILLS = [100, 250] as const

export const exactlyOnce: Example = async ({ stage, size, random }) => {
  const [postgres, redis] = await Promise.all([stage.ground.postgres(), stage.ground.redis()])
  const [ours, theirs] = await Promise.all([postgres.createDatabase('payments'), postgres.createDatabase('onceway')])
  const query = await stage.database(ours)
  await query(SCHEMA)
  await query(`insert into accounts (tenant) values ${TENANTS.map((tenant) => `('${tenant}')`).join(', ')}`)
  const port = await freePort()
  const upstream = await stage.program('exactly-once/upstream.ts', { DATABASE_URL: ours, PORT: String(port) })
  const env = { DATABASE_URL: theirs, REDIS_URL: redis.url, ONCEWAY_UPSTREAMS_PAYMENTS_URL: `http://127.0.0.1:${port}` }
  // One after the other, because the first one creates the tables.
  const gateways = [await Seat.taken(stage, 'exactly-once/onceway.yaml', env), await Seat.taken(stage, 'exactly-once/onceway.yaml', env)]
  const answers = stage.lines('answers.txt')
  const client = await stage.program('exactly-once/client.ts', {
    GATEWAY_URLS: gateways.map(({ url }) => url).join(','),
    PAYMENTS: String(size),
    ANSWERS: answers.path
  })

  const victims = gateways.flatMap((gateway) => [upstream, gateway])
  const struck = new Map(victims.map((victim) => [victim, 0]))
  await killUntilFinished({
    random,
    progress: () => answers.count(),
    between: BETWEEN_KILLS,
    finished: () => {
      upstream.check()
      return client.ended
    },
    strike: async () => {
      // In turn, so that gateways and upstream are both killed in every run.
      const victim = victims.shift() as Seat | typeof upstream
      victims.push(victim)
      struck.set(victim, (struck.get(victim) ?? 0) + 1)
      await victim.restart()
    }
  })

  const kills = gateways.map((gateway) => struck.get(gateway) ?? 0).reduce((sum, count) => sum + count, 0)
  const died = struck.get(upstream) ?? 0
  const [sent] = await query('select count(*)::integer as again from processed_messages where attempt > 1')
  const verdict = judgePayments({
    expected: Array.from({ length: size }, (_, number) => paymentOf(number)),
    payments: await query('select tenant, reference, amount, id from payments') as unknown as Books['payments'],
    balances: Object.fromEntries((await query('select tenant, balance from accounts')).map(({ tenant, balance }) => [
      tenant,
      Number(balance)
    ])),
    told: answers.all().map((line) => JSON.parse(line) as Books['told'][number])
  }, [
    `gateways killed ${kills} times, the upstream ${died} times`,
    `${sent?.again} payments reached the upstream in more than one attempt`
  ])
  return kills > 0 && died > 0 ? verdict : { ...verdict, wrong: [...verdict.wrong, 'somebody was never killed'] }
}

/** The same payments as in client.ts. */
function paymentOf (number: number): Payment {
  return {
    tenant: TENANTS[number % TENANTS.length] as string,
    reference: `order-${Math.floor(number / TENANTS.length)}`,
    amount: 1 + number % 97
  }
}
