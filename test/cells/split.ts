/** Splits a cell under load, in the steps of docs/guides/scale.md. */
import { setTimeout as sleep } from 'node:timers/promises'
import { say } from '../cli/world.ts'
import { query } from '../harness/postgres.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { Clients, judge, secondsWithout, startCounting } from './load.ts'
import type { Judgement } from './load.ts'
import { World } from './world.ts'
import type { Ending, WholeCell } from './world.ts'

export interface SplitOptions {
  readonly keysPerSecond: number
  /** Of load, before the split and after it. */
  readonly secondsAround: number
  readonly gatewaysPerCell: number
  /** One of the old gateways gets SIGKILL instead of a drain. */
  readonly kill: boolean
}

export interface SplitResult extends Judgement {
  readonly steps: ReadonlyArray<readonly [name: string, seconds: number]>
  /** The longest time without an answer, by cell. */
  readonly without: Readonly<Record<'stays' | 'moves' | 'other', number>>
  readonly ids: readonly string[]
  readonly versions: readonly string[]
}

const [STAYS, MOVES, OTHER] = [[0, 249], [250, 499], [500, 999]] as const
const REPLAYED_WITHIN_MS = 20_000

export async function runSplit (
  ending: Ending,
  { keysPerSecond, secondsAround, gatewaysPerCell, kill }: SplitOptions
): Promise<SplitResult> {
  const upstream = await startCounting(ending)
  const world = new World(ending, { by: 'key', upstream: upstream.url, gatewaysPerCell })
  await world.start()
  const clients = new Clients(world.proxies.map(({ port }) => port), keysPerSecond)
  ending.after(async () => { clients.stop(); await Promise.resolve() })
  clients.start()
  await sleep(secondsAround * 1_000)
  const { steps, ids } = await split(world, kill)
  await sleep(secondsAround * 1_000)
  await clients.finish()
  return {
    ...judge(clients, upstream.executions, kill),
    steps,
    ids,
    without: {
      stays: secondsWithout(clients.told, STAYS),
      moves: secondsWithout(clients.told, MOVES),
      other: secondsWithout(clients.told, OTHER)
    },
    versions: world.proxies.map(({ name, version }) => `${name} ${version}`)
  }
}

async function split (world: World, kill: boolean): Promise<Pick<SplitResult, 'steps' | 'ids'>> {
  const [a, b] = world.cells as [WholeCell, WholeCell]
  const steps: Array<readonly [string, number]> = []
  const timed = async <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const startedAt = performance.now()
    const result = await work()
    steps.push([name, (performance.now() - startedAt) / 1_000])
    return result
  }
  const stay = await timed('start new gateways for the half that stays', async () => world.gatewaysOf(a.database, a.redis))
  const other = { slots: '500-999', gateways: b.gateways }
  await timed('close the half that moves, in both proxies', async () => world.reload({
    a: { slots: '0-249', gateways: stay }, c: { slots: '250-499', gateways: [] }, b: other
  }))
  await timed('drain the old gateways', async () => endAll(a.gateways, kill))
  const database = await timed('promote the standby', async () => promote(a))
  const ids = await timed('onceway installation new', async () => newId(a.database, database))
  const move = await timed('start gateways for the half that moves', async () => world.gatewaysOf(database, a.redis))
  await timed('open it, in both proxies', async () => world.reload({
    a: { slots: '0-249', gateways: stay }, c: { slots: '250-499', gateways: move }, b: other
  }))
  return { steps, ids }
}

/** All that an old configuration of a proxy knows. Until they have ended, the standby must not be promoted. */
async function endAll (gateways: readonly ProcessGateway[], kill: boolean): Promise<void> {
  gateways.forEach((gateway, at) => { gateway.signal(kill && at === 0 ? 'SIGKILL' : 'SIGTERM') })
  await Promise.all(gateways.map(async ({ exited }) => exited))
}

/** Everything that was committed until now is in the standby before it is promoted. Returns the URL of its database. */
async function promote ({ pair, database }: WholeCell): Promise<string> {
  const [primary, standby] = [pair.primary(), pair.standby()]
  if (standby === null) throw new Error('the cell has no standby')
  const [at] = await query(primary.url, 'select pg_current_wal_flush_lsn()::text as lsn')
  const behind = `select 1 where pg_last_wal_replay_lsn() < '${String(at?.lsn)}'`
  for (const endsAt = performance.now() + REPLAYED_WITHIN_MS; (await query(standby.url, behind)).length > 0; await sleep(20)) {
    if (performance.now() > endsAt) throw new Error('the standby does not follow')
  }
  // The primary must not wait for a standby that is another cell.
  await query(primary.url, 'alter system reset synchronous_standby_names')
  await query(primary.url, 'select pg_reload_conf()')
  await query(standby.url, 'select pg_promote(true, 20)')
  const url = new URL(database)
  url.port = String(standby.port)
  return url.href
}

/** The id of each half. */
async function newId (stays: string, moves: string): Promise<string[]> {
  const { exitCode, err } = await say(['installation', 'new', '--yes'], { DATABASE_URL: moves })
  if (exitCode !== 0) throw new Error(err)
  return Promise.all([stays, moves].map(async (url) => String((await query(url, 'select id from onceway.installation'))[0]?.id)))
}
