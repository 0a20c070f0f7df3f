/**
 * The registry in Postgres: which gateway serves which route (ports/registry.ts). An acceptance and a claim that overlap do not
 * see each other. So a gateway that executes registers behind a barrier, and no gateway accepts beside it without a claim. The
 * barrier is a lock that every acceptance takes before it looks (inbox-arrivals.ts) and holds until its commit. Reads, and so a
 * backup, do not delay it.
 */
import { LIVES_MS } from '../../core/protocol/aspects.ts'
import type { DifferingRoute, Registering, Registry } from '../../ports/registry.ts'
import { booleans, texts } from './arrays.ts'
import type { Connections } from './connections.ts'
import type { Session, Statement, Values } from './statements.ts'
import { provenRolledBack } from './faults.ts'

const write = (name: string, text: (schema: string) => string): Statement => ({ name, writes: true, text })

const BEGIN = write('register_begin', () => 'begin')
const COMMIT = write('register_commit', () => 'commit')
const ROLLBACK = write('register_rollback', () => 'rollback')

/** For this transaction only. */
const LIMIT = write('register_limit', () => 'select set_config(\'lock_timeout\', $1, true)')

/** Later acceptances wait for it, at most `barrierMs`. */
const BARRIER = write('register_barrier', (schema) => `lock table ${schema}.gateway_routes in exclusive mode`)

/** New registrations remove those of gateways that are long gone. */
const LONG_GONE_MS = 24 * LIVES_MS

const REGISTER = write('register', (schema) => `with gone as (
  delete from ${schema}.gateway_routes r using ${schema}.gateways g
   where g.id = r.gateway and (g.seen_at < statement_timestamp() - interval '${LONG_GONE_MS} ms' or (r.gateway = $1 and r.route <> all ($3::text[])))
), lives as (
  insert into ${schema}.gateways as g (id, instance, beat, seen_at, schemes) values ($1, $2, 0, clock_timestamp(), $6::text[])
  on conflict (id) do update set seen_at = clock_timestamp(), schemes = excluded.schemes
)
insert into ${schema}.gateway_routes as r (gateway, route, executes, policy)
select $1, w.route, w.executes, w.policy::jsonb from unnest($3::text[], $4::bool[], $5::text[]) as w (route, executes, policy)
on conflict (route, gateway) do update set executes = excluded.executes, policy = excluded.policy
 where (r.executes, r.policy) is distinct from (excluded.executes, excluded.policy)`)

const WITHDRAW = write('register_withdraw', (schema) => `delete from ${schema}.gateway_routes where gateway = $1`)

const REGISTERED: Statement = {
  name: 'registered',
  writes: false,
  text: (schema) => `select exists (select from ${schema}.gateway_routes where gateway = $1) as is`
}

/** Signs of life come every few seconds. A gateway that was silent for a minute does not count as differing. */
const TELLS_MS = 60_000
/** More rows would say nothing more. */
const DIFFERING_MAX = 1_000

const DIFFERING: Statement = {
  name: 'differing',
  writes: false,
  text: (schema) => `select encode(t.gateway, 'hex') as gateway, g.instance, t.route, t.policy
  from ${schema}.gateways g
  join ${schema}.gateway_routes t on t.gateway = g.id
  left join ${schema}.gateway_routes m on m.route = t.route and m.gateway = $1
 where g.id <> $1 and g.seen_at > statement_timestamp() - interval '${TELLS_MS} ms' and m.policy is distinct from t.policy
 order by t.route, g.instance
 limit ${DIFFERING_MAX}`
}

export class PostgresRegistry implements Registry {
  readonly name = 'postgres'
  readonly #background: Connections

  constructor (background: Connections) {
    this.#background = background
  }

  register (order: Registering): Promise<void> {
    return this.#background.use('register', async (session) => {
      try {
        await registerOnce(session, order)
      } catch (error) {
        // The server refused, so this connection goes on. Any other error has ended it, and the transaction with it.
        if (provenRolledBack(error)) await session.run(ROLLBACK, [])
        throw error
      }
    })
  }

  async registered (gateway: Buffer): Promise<boolean> {
    const [row] = await this.#background.use('registered', (session) => session.run<{ is: boolean }>(REGISTERED, [gateway]))
    return row?.is === true
  }

  differing (gateway: Buffer): Promise<DifferingRoute[]> {
    return this.#background.use('differing', (session) => session.run<DifferingRoute>(DIFFERING, [gateway]))
  }

  async withdraw (gateway: Buffer): Promise<void> {
    await this.#background.use('withdraw', (session) => session.run(WITHDRAW, [gateway]))
  }
}

async function registerOnce (session: Session, { gateway, instance, schemes, routes, barrierMs }: Registering): Promise<void> {
  const values: Values = [
    gateway,
    instance,
    texts(routes.map(({ route }) => route)),
    booleans(routes.map(({ executes }) => executes)),
    texts(routes.map(({ policy }) => JSON.stringify(policy))),
    texts(schemes)
  ]
  await session.run(BEGIN, [])
  await session.run(LIMIT, [barrierMs === null ? session.lockTimeout : `${barrierMs}ms`])
  if (barrierMs !== null) await session.run(BARRIER, [])
  await session.run(REGISTER, values)
  await session.run(COMMIT, [])
}
