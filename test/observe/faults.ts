/** What makes each alert of deploy/prometheus fire: a fault, and not a number that was made up. */
import { randomUUID } from 'node:crypto'
import { writeFileSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Client } from 'pg'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { query } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { Labels } from '../harness/prometheus.ts'
import { metricsOf, totalOf } from '../e2e/metrics.ts'
import type { AlertWatch } from './watch.ts'
import { EXECUTIONS, targetOf } from './world.ts'
import type { Ending, World } from './world.ts'

type Undo = () => Promise<unknown>

export interface Provoked extends World {
  readonly watch: AlertWatch
  readonly t: Ending
}

export interface Fault {
  readonly name: string
  /** The alerts that it makes fire, and labels that say so. */
  readonly alerts: ReadonlyArray<readonly [name: string, labels: (world: World) => Labels]>
  /** Resolves when it has begun, with what ends it. */
  readonly provoke: (world: Provoked) => Promise<Undo>
}

const SEEN_WITHIN_MS = 60_000
const DAY_SECONDS = 86_400
const LEAKING = pathToFileURL(fileURLToPath(new URL('./leaking.ts', import.meta.url))).href
/** In MiB. What a gateway needs at its start, and as much again. */
const SMALL_HEAP = 128
/** Shorter than a claim waits (2 s), and longer than it should. */
const LOCKED_MS = 800
const UNLOCKED_MS = 200
const STEP_MS = 60_000
const REFUSED = 503
const AGAIN_AFTER_MS = 200
/** Some hundred retries a second: most of the requests of the route, and no load. */
const REPEATED_AFTER_MS = 10

const nothing: Undo = async () => {}
const any = (): Labels => ({})
const route = (name: string) => (): Labels => ({ route: name })
const store = (name: string) => (): Labels => ({ store: name })

/** Goes on until it is undone. */
function again (what: () => Promise<unknown>): Undo {
  const over = new AbortController()
  const going = (async () => { while (!over.signal.aborted) await what() })()
  // It rejects when it is undone, and not before.
  going.catch(() => {})
  return async () => {
    over.abort()
    await going
  }
}

/**
 * Requests that the upstream has, and does not answer yet. A store that an earlier fault took away may be back for a moment only: what is
 * refused comes again, by another key, because the claim of the first one may be in doubt.
 */
async function held ({ ask, one, witness }: World, path: string, count: number): Promise<{ readonly answered: () => Promise<unknown> }> {
  const name = `slow-${count}-${witness.seen.length}`
  const send = async (): Promise<void> => {
    while ((await ask(one, path, { key: randomUUID(), body: name })).status === REFUSED) await sleep(AGAIN_AFTER_MS)
  }
  const asking = Promise.allSettled(Array.from({ length: count }, send))
  const reached = (): number => witness.seen.filter(({ body }) => body.toString() === name).length
  await eventually(() => reached() === count, 'the upstream has them', SEEN_WITHIN_MS)
  return { answered: async () => asking }
}

const OF_CLIENTS: readonly Fault[] = [
  {
    name: 'a retry comes with a new token',
    alerts: [['OncewayScopeSplits', route('charges')]],
    provoke: async ({ ask, one }) => {
      for (const token of ['yesterday', 'today']) await ask(one, '/charges', { key: 'split', token })
      return nothing
    }
  },
  {
    name: 'a key comes where nothing guards',
    alerts: [['OncewayIgnoredKeys', any]],
    provoke: async ({ ask, two }) => {
      await ask(two, '/elsewhere', { key: 'ignored' })
      return nothing
    }
  },
  {
    name: 'a client sends the same again and again',
    alerts: [['OncewayDuplicateRate', route('charges')]],
    provoke: async ({ ask, one, two }) => {
      const undo = [one, two, one, two].map((gateway) => again(async () => {
        await ask(gateway, '/charges', { key: 'repeated' })
        await sleep(REPEATED_AFTER_MS)
      }))
      return async () => Promise.all(undo.map(async (each) => each()))
    }
  },
  {
    name: 'the upstream hangs up, and nobody resolves it',
    alerts: [['OncewayOutcomeUnknown', () => ({ route: 'charges', stage: 'during' })], ['OncewayUnknownUnresolved', any]],
    provoke: async ({ ask, one }) => {
      await ask(one, '/charges', { key: 'gone', body: 'gone' })
      return nothing
    }
  },
  {
    name: 'nobody resolves it until its retention is over',
    alerts: [['OncewayUnknownForgotten', any]],
    provoke: async ({ ask, two }) => {
      await ask(two, '/brief', { key: 'gone', body: 'gone' })
      return nothing
    }
  }
]

/** By itself: what else is asked of that gateway meanwhile is shed too. */
const OF_LOAD: readonly Fault[] = [
  {
    name: 'more is to be executed than may be',
    alerts: [['OncewayShedding', () => ({ limit: 'executions' })]],
    provoke: async ({ ask, one, open }) => {
      let shed = 0
      const asking = Array.from({ length: 3 * EXECUTIONS }, async (_, at) => {
        const { status } = await ask(one, '/charges', { key: `many-${at}`, body: 'slow' })
        if (status === 503) shed++
      })
      await eventually(() => shed > 0, 'some are shed', SEEN_WITHIN_MS)
      open()
      await Promise.all(asking)
      return nothing
    }
  }
]

const OF_INBOXES: readonly Fault[] = [
  {
    name: 'a consumer refuses a message, and hangs up on another',
    alerts: [['OncewayInboxDead', route('orders')], ['OncewayInboxHeld', route('orders')]],
    provoke: async ({ ask, one }) => {
      for (const body of ['fail', 'gone']) await ask(one, '/orders', { key: body, body })
      return nothing
    }
  },
  {
    name: 'a consumer takes nothing',
    alerts: [
      ['OncewayInboxOld', route('late')], ['OncewayInboxFull', route('late')], ['OncewayInboxFailing', route('late')],
      ['OncewayInboxPaused', route('away')]
    ],
    provoke: async ({ ask, two, takeLate }) => {
      await ask(two, '/away', { key: 'a', body: 'a' })
      for (const key of ['a', 'b', 'c']) await ask(two, '/late', { key, body: key.repeat(8 * 1024) })
      return async () => { takeLate() }
    }
  }
]

const OF_OPERATORS: readonly Fault[] = [
  {
    name: 'a file with mistakes is reloaded',
    alerts: [['OncewayReloadRefused', ({ one }) => ({ instance: targetOf(one) })]],
    provoke: async ({ one }) => {
      const before = readFileSync(one.file, 'utf8')
      await one.reloadQuietly(`${before}\nroutes: none\n`, 'refused')
      writeFileSync(one.file, before)
      return nothing
    }
  },
  {
    name: 'a roll-out stops half-way',
    alerts: [['OncewayGatewaysDiffer', () => ({ aspect: 'retention' })]],
    provoke: async ({ two, ofTwo }) => {
      await two.reloadQuietly(ofTwo('retention: 24h', 'retention: 23h'), 'ok')
      return async () => two.reloadQuietly(ofTwo(), 'ok')
    }
  },
  {
    name: 'a certificate ends soon, and the next one is none',
    alerts: [['OncewayCertificateExpires', ofListener], ['OncewayCertificateRefused', ofListener]],
    provoke: async ({ two, certificate, t }) => {
      certificate({ days: '2' })
      const endsAt = async (): Promise<number> =>
        totalOf(await metricsOf(two.adminUrl), 'onceway_tls_certificate_expiration_timestamp_seconds')
      await eventually(async () => await endsAt() < Date.now() / 1000 + 3 * DAY_SECONDS, 'it is read', SEEN_WITHIN_MS)
      const directory = makeDirectory('no-certificate')
      t.after(() => { directory.remove() })
      writeFileSync(join(directory.path, 'tls.crt'), 'none')
      certificate(join(directory.path, 'tls.crt'))
      return async () => { certificate({ days: '90' }) }
    }
  },
  {
    name: 'the database may lose commits from now on',
    alerts: [['OncewayPromiseWeakened', any]],
    provoke: async ({ servers }) => {
      const set = async (how: string): Promise<void> => {
        await query(servers.postgres.url, `alter system ${how}`)
        await query(servers.postgres.url, 'select pg_reload_conf()')
      }
      await set('set synchronous_commit = off')
      return async () => set('reset synchronous_commit')
    }
  }
]

function ofListener ({ two }: World): Labels { return { instance: targetOf(two), listener: 'listen' } }

const OF_STORES: ReadonlyArray<readonly Fault[]> = [
  [{
    name: 'claims wait for a lock of another',
    alerts: [['OncewaySlowClaims', ({ one }) => ({ instance: targetOf(one) })]],
    provoke: async ({ database }) => {
      const holder = new Client({ connectionString: database.url })
      holder.on('error', () => {})
      await holder.connect()
      const undo = again(async () => {
        await holder.query('begin')
        await holder.query('lock table onceway.records in share row exclusive mode')
        await sleep(LOCKED_MS)
        await holder.query('commit')
        await sleep(UNLOCKED_MS)
      })
      return async () => {
        await undo()
        await holder.end()
      }
    }
  }],
  [{
    name: 'Redis ends',
    alerts: [['OncewayStoreDown', store('redis')]],
    provoke: async ({ servers }) => {
      await servers.redis.kill()
      return async () => servers.redis.restart()
    }
  }],
  [{
    name: 'the clock of the database steps ahead',
    alerts: [['OncewayClockAhead', any], ['OncewayClockSteps', any]],
    provoke: async ({ database }) => {
      await database.step(STEP_MS)
      return async () => database.step(-STEP_MS)
    }
  }],
  [{
    name: 'Postgres ends',
    alerts: [['OncewayStoreDown', store('postgres')], ['OncewayStoreErrors', store('postgres')]],
    provoke: async ({ servers }) => {
      await servers.postgres.kill()
      return async () => servers.postgres.restart()
    }
  }],
  [{
    name: 'Postgres stands still while requests are executed',
    alerts: [
      ['OncewayNoContact', store('postgres')], ['OncewayAnswersUnsettled', route('charges')], ['OncewaySettleRetries', route('charges')],
      ['OncewayUnsettledBytes', ({ one }) => ({ instance: targetOf(one) })]
    ],
    provoke: async (world) => {
      const { answered } = await held(world, '/charges', 4)
      world.servers.postgres.pause()
      world.open()
      return async () => {
        world.servers.postgres.resume()
        await answered()
      }
    }
  }]
]

const OF_PROCESSES: ReadonlyArray<readonly Fault[]> = [
  [
    {
      name: 'a gateway stands still for longer than its lease, and another one lapses it',
      alerts: [['OncewayLeasesLost', route('charges')]],
      provoke: async (world) => {
        const { one, two, open } = world
        const { answered } = await held(world, '/charges', 1)
        one.signal('SIGSTOP')
        const lapsed = async (): Promise<number> => totalOf(await metricsOf(two.adminUrl), 'onceway_records_lapsed_total')
        const before = await lapsed()
        try {
          await eventually(async () => await lapsed() > before, 'it is lapsed', SEEN_WITHIN_MS)
        } finally {
          one.signal('SIGCONT')
        }
        // Its answer would still be stored: the outcome is unknown, and the owner knows it. Until then it finds that the lease is lost.
        const lost = async (): Promise<number> => totalOf(await metricsOf(one.adminUrl), 'onceway_leases_lost_total')
        await eventually(async () => await lost() > 0, 'it has lost its lease', SEEN_WITHIN_MS)
        open()
        return answered
      }
    },
    {
      name: 'the heap of a gateway is nearly full, and its process ends',
      alerts: [['OncewayHeapNearLimit', any], ['OncewayGatewayDown', any]],
      provoke: async ({ one, two, prometheus, watch, witness, t }) => {
        const third = await startProcess(t, {
          config: `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
upstreams: { shop: { url: "${witness.url}" } }
routes:
  - { name: charges, match: { path: /charges }, upstream: shop, idempotency: {} }
`,
          env: { NODE_OPTIONS: `--import=${LEAKING} --max-semi-space-size=1 --max-old-space-size=${SMALL_HEAP}` }
        })
        const [instance, sinceMs] = [targetOf(third), performance.now()]
        prometheus.scrape([one, two, third].map(targetOf))
        third.signal('SIGUSR2')
        await watch.fires('OncewayHeapNearLimit', { instance }, sinceMs)
        third.signal('SIGKILL')
        await watch.fires('OncewayGatewayDown', { instance }, sinceMs)
        return async () => { prometheus.scrape([one, two].map(targetOf)) }
      }
    }
  ]
]

/** Those of a group are there at the same time. */
export const FAULTS: ReadonlyArray<readonly Fault[]> = [
  [...OF_CLIENTS, ...OF_INBOXES],
  OF_LOAD,
  OF_OPERATORS,
  ...OF_STORES,
  ...OF_PROCESSES
]
