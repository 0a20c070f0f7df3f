/**
 * Who is compared with whom. Every contestant is a process of its own in front of the same upstream, with a database of its
 * own on the same Postgres and names of its own in the same Redis.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ConfigSchema } from '../src/config/schema.ts'
import { builtMain } from './built.ts'
import { startNode } from './child.ts'
import type { Child, Wish } from './child.ts'
import { GROUP_HEADER, PATH } from './exchange.ts'
import {
  BASELINE, BEFORE, FLOOR_DURABLE, FLOOR_DURABLE_INBOX, FLOOR_EMBEDDED, FLOOR_REPLY, NODE_IDEMPOTENCY, ONCEWAY, OUTBOX
} from './names.ts'
import { makeAuthority } from '../test/harness/certificates.ts'
import type { Signed } from '../test/harness/certificates.ts'
import { startCache, startProxy } from './nginx.ts'

/**
 * pass: nothing is guarded. first: every key is new. replay: every key is settled. accept: every message is new, and waits.
 * deliver: what has gathered goes out. steady: some come and go every second.
 */
export type Work = 'pass' | 'first' | 'replay' | InboxWork
export type InboxWork = 'accept' | 'deliver' | 'steady'

export interface World {
  readonly directory: string
  readonly upstreamUrl: string
  /** Of the load; and of the deliveries of an inbox. */
  readonly concurrency: number
  readonly redisUrl: () => string
  /** An empty one. slow: on the server where a commit takes its time. */
  readonly createDatabase: (name: string, slow: boolean) => Promise<string>
}

export type Need = 'postgres' | 'slow postgres' | 'redis' | 'packages'

export interface Contestant {
  readonly name: string
  readonly what: string
  readonly works: readonly Work[]
  /** Whose turn in the same round it is a ratio over, before all others. */
  readonly over: string
  /** What its first requests cannot be below: the same commits, and nothing else. */
  readonly floor?: string
  readonly needs: readonly Need[]
  /** Its inbox keeps the order of each group. */
  readonly ordered?: boolean
  /** The same from another checkout, whose packages are installed: what a change costs is a ratio in one run. */
  readonly of?: (checkout: string) => Contestant
  readonly start: (world: World) => Promise<Child>
}

const INBOX: readonly Work[] = ['accept', 'deliver', 'steady']

/** Without these there is no run: what it is a ratio over, and its floor. */
export function basesOf ({ name, over, floor }: Contestant, work: Work): string[] {
  const bases: Record<Work, Array<string | undefined>> = {
    pass: [over],
    first: [over, floor],
    replay: [over, FLOOR_REPLY],
    accept: [over, FLOOR_DURABLE_INBOX],
    deliver: [OUTBOX, FLOOR_DURABLE_INBOX],
    steady: [OUTBOX]
  }
  return bases[work].filter((base, place): base is string => base !== undefined && (place === 0 || base !== name))
}

/** These and, where they take part, npm's package and the same contestant from the other checkout. */
export function oversOf (contestant: Contestant, work: Work): string[] {
  const { name, over } = contestant
  const npm = work === 'first' && over === BASELINE && name !== NODE_IDEMPOTENCY ? [NODE_IDEMPOTENCY] : []
  return [...basesOf(contestant, work), ...npm, ...name.endsWith(BEFORE) ? [] : [`${name}${BEFORE}`]]
}

/** Who needs the setting `workers` is in the list as soon as the configuration has it. */
const WITH_WORKERS: readonly Contestant[] = [
  onceway({ name: 'onceway-2', what: 'Redis and Postgres, 2 workers', works: ['first', 'replay'], postgres: true, redis: true, workers: 2 })
]

export const CONTESTANTS: readonly Contestant[] = [
  {
    name: BASELINE,
    what: 'Fastify with @fastify/http-proxy, one process, no log',
    works: ['pass'],
    over: BASELINE,
    needs: [],
    start: script('plain', 'plain.ts')
  },
  {
    name: 'nginx',
    what: 'nginx, `proxy_pass`, one worker',
    works: ['pass'],
    over: BASELINE,
    needs: [],
    start: ({ directory, upstreamUrl }) => startProxy('nginx', directory, upstreamUrl)
  },
  {
    name: 'fast-proxy',
    what: 'npm fast-proxy with its undici client, on node:http',
    works: ['pass'],
    over: BASELINE,
    needs: ['packages'],
    start: script('fast-proxy', 'fast-proxy.mjs')
  },
  {
    name: 'httpxy',
    what: 'npm httpxy on node:http',
    works: ['pass'],
    over: BASELINE,
    needs: ['packages'],
    start: script('httpxy', 'httpxy.mjs')
  },
  {
    name: FLOOR_REPLY,
    what: 'node:http and an answer made of the key; asks nobody, keeps nothing',
    works: ['pass'],
    over: BASELINE,
    needs: [],
    start: floor('reply')
  },
  {
    name: 'floor-forward',
    what: 'node:http and undici dispatch, there and back; guards nothing',
    works: ['pass'],
    over: BASELINE,
    needs: [],
    start: floor('forward')
  },
  {
    name: FLOOR_DURABLE,
    what: 'node:http, undici dispatch and two commits on Postgres, in lanes; wrong after every fault',
    works: ['first'],
    over: BASELINE,
    needs: ['postgres'],
    start: floorDurable
  },
  {
    name: FLOOR_EMBEDDED,
    what: 'node:http, undici dispatch and two commits on SQLite, on the main thread; wrong after every fault',
    works: ['first'],
    over: BASELINE,
    needs: [],
    start: floorEmbedded
  },
  {
    name: 'nginx-cache',
    what: 'nginx, `proxy_cache_methods POST` by caller and key, `proxy_cache_lock`; not durable',
    works: ['first', 'replay'],
    over: BASELINE,
    needs: [],
    start: ({ directory, upstreamUrl }) => startCache('nginx-cache', directory, upstreamUrl)
  },
  {
    name: 'naive',
    what: 'reply.from, SET NX, INSERT, UPDATE, SET, each by itself, a pool of 10',
    works: ['first', 'replay'],
    over: BASELINE,
    floor: FLOOR_DURABLE,
    needs: ['postgres', 'redis'],
    start: naive('naive', false)
  },
  {
    name: NODE_IDEMPOTENCY,
    what: 'npm @node-idempotency/core with its Redis adapter; not durable',
    works: ['first', 'replay'],
    over: BASELINE,
    needs: ['redis', 'packages'],
    start: script(NODE_IDEMPOTENCY, 'node-idempotency.mjs')
  },
  {
    name: 'express-idempotency',
    what: 'npm express-idempotency over a Map; not durable',
    works: ['first', 'replay'],
    over: BASELINE,
    needs: ['packages'],
    start: script('express-idempotency', 'express-idempotency.mjs')
  },
  onceway({ name: 'onceway-embedded', what: 'SQLite', works: ['first', 'replay'] }),
  onceway({ name: 'onceway-postgres', what: 'Postgres only', works: ['first', 'replay'], postgres: true }),
  onceway({ name: ONCEWAY, what: 'Redis and Postgres', works: ['first', 'replay'], postgres: true, redis: true }),
  ...'workers' in ConfigSchema.properties ? WITH_WORKERS : [],
  onceway({
    name: 'onceway-no-lru',
    what: 'Redis and Postgres, nothing kept in memory: replays come from Redis',
    works: ['replay'],
    postgres: true,
    redis: true,
    recentBytes: '0B'
  }),
  onceway({
    name: 'onceway-store-only',
    what: 'Postgres only, nothing kept in memory: replays come from Postgres',
    works: ['replay'],
    postgres: true,
    recentBytes: '0B'
  }),
  onceway({
    name: 'onceway-traced',
    what: 'Redis and Postgres, 1 % of traces',
    works: ['first'],
    over: ONCEWAY,
    postgres: true,
    redis: true,
    traced: true
  }),
  onceway({
    name: 'onceway-tls',
    what: 'Redis and Postgres, behind TLS',
    works: ['first', 'replay'],
    over: ONCEWAY,
    postgres: true,
    redis: true,
    tls: true
  }),
  {
    name: 'floor-inbox',
    what: 'node:http, a list in memory and undici dispatch; survives nothing',
    works: INBOX,
    over: BASELINE,
    needs: [],
    start: floorInbox
  },
  {
    name: FLOOR_DURABLE_INBOX,
    what: 'node:http, undici dispatch and three commits on Postgres, in lanes; wrong after every fault',
    works: INBOX,
    over: BASELINE,
    needs: ['postgres'],
    start: floorDurableInbox
  },
  {
    name: OUTBOX,
    what: 'an INSERT for each; workers that SELECT … FOR UPDATE SKIP LOCKED, send, UPDATE, one by one',
    works: INBOX,
    over: BASELINE,
    needs: ['postgres'],
    start: outbox
  },
  onceway({ name: 'onceway-inbox-embedded', what: 'mode inbox, SQLite', works: INBOX }),
  onceway({ name: 'onceway-inbox-postgres', what: 'mode inbox, Postgres only', works: INBOX, postgres: true }),
  onceway({ name: 'onceway-inbox', what: 'mode inbox, Redis and Postgres', works: INBOX, postgres: true, redis: true }),
  onceway({
    name: 'onceway-inbox-ordered',
    what: 'mode inbox, Postgres only, in the order of 1,000 groups',
    works: INBOX,
    postgres: true,
    ordered: true
  }),
  {
    name: 'naive-slow',
    what: 'naive where a commit takes 2.4 ms',
    works: ['first'],
    over: 'naive-slow',
    needs: ['slow postgres', 'redis'],
    start: naive('naive-slow', true)
  },
  onceway({
    name: 'onceway-slow',
    what: 'Redis and Postgres where a commit takes 2.4 ms',
    works: ['first'],
    over: 'naive-slow',
    postgres: true,
    redis: true,
    slow: true
  })
]

function script (name: string, file: string): Contestant['start'] {
  return async ({ directory, upstreamUrl, redisUrl }) => startNode(name, directory, [contestantFile(file)], {
    UPSTREAM: upstreamUrl,
    ...file === 'node-idempotency.mjs' && { REDIS_URL: redisUrl(), PREFIX: name }
  })
}

function floor (what: 'reply' | 'forward'): Contestant['start'] {
  return async ({ directory, upstreamUrl }) => startNode(`floor-${what}`, directory, [contestantFile('floor.ts')], {
    FLOOR: what,
    UPSTREAM: upstreamUrl
  })
}

async function floorDurable ({ directory, upstreamUrl, createDatabase }: World): Promise<Child> {
  return startNode(FLOOR_DURABLE, directory, [contestantFile('floor-durable.ts')], {
    UPSTREAM: upstreamUrl,
    DATABASE_URL: await createDatabase(FLOOR_DURABLE, false)
  })
}

async function floorEmbedded ({ directory, upstreamUrl }: World): Promise<Child> {
  return startNode(FLOOR_EMBEDDED, directory, [contestantFile('floor-embedded.ts')], {
    UPSTREAM: upstreamUrl,
    FILE: join(directory, 'floor-embedded.sqlite')
  })
}

function naive (name: string, slow: boolean): Contestant['start'] {
  return async ({ directory, upstreamUrl, redisUrl, createDatabase }) => startNode(name, directory, [contestantFile('naive.ts')], {
    UPSTREAM: upstreamUrl, REDIS_URL: redisUrl(), DATABASE_URL: await createDatabase(name, slow), PREFIX: `${name}:`
  })
}

async function floorInbox ({ directory, upstreamUrl, concurrency }: World): Promise<Child> {
  return holdable(await startNode('floor-inbox', directory, [contestantFile('floor-inbox.ts')], {
    UPSTREAM: upstreamUrl,
    DELIVERIES: String(concurrency)
  }))
}

async function floorDurableInbox ({ directory, upstreamUrl, concurrency, createDatabase }: World): Promise<Child> {
  return holdable(await startNode(FLOOR_DURABLE_INBOX, directory, [contestantFile('floor-durable-inbox.ts')], {
    UPSTREAM: upstreamUrl,
    DATABASE_URL: await createDatabase(FLOOR_DURABLE_INBOX, false),
    DELIVERIES: String(concurrency)
  }))
}

async function outbox ({ directory, upstreamUrl, concurrency, createDatabase }: World): Promise<Child> {
  return holdable(await startNode(OUTBOX, directory, [contestantFile('outbox.ts')], {
    UPSTREAM: upstreamUrl, DATABASE_URL: await createDatabase(OUTBOX, false), DELIVERIES: String(concurrency)
  }))
}

/** Those of the contestants that know two signals for it. */
function holdable (child: Child): Child {
  return {
    ...child,
    deliveries: (wish) => child.signal(wish === 'held' ? 'SIGUSR2' : 'SIGHUP', `deliveries are ${wish}`)
  }
}

interface Onceway {
  readonly name: string
  /** Default: this one. */
  readonly checkout?: string
  readonly what: string
  readonly works: readonly Work[]
  readonly over?: string
  readonly postgres?: boolean
  readonly redis?: boolean
  readonly slow?: boolean
  /** Where it is not the default. */
  readonly recentBytes?: string
  readonly workers?: number
  readonly ordered?: boolean
  /** A hundredth of its requests is traced, and sent to a collector that takes everything. */
  readonly traced?: boolean
  readonly tls?: boolean
}

/** As its users run it: by the command line, from a file that says where and what, everything else by default, logs too. */
function onceway (settings: Onceway): Contestant {
  const { name, checkout, what, works, over = BASELINE, workers } = settings
  const { postgres = false, redis = false, slow = false, ordered = false } = settings
  const needs: Need[] = []
  if (postgres) needs.push(slow ? 'slow postgres' : 'postgres')
  if (redis) needs.push('redis')
  return {
    name,
    what: `onceway: ${what}`,
    works,
    over,
    ...works.includes('first') && !slow && { floor: postgres ? FLOOR_DURABLE : FLOOR_EMBEDDED },
    needs,
    ordered,
    of: (other) => onceway({
      ...settings,
      name: `${name}${BEFORE}`,
      what: `${what}; the other checkout`,
      checkout: other
    }),
    async start ({ directory, upstreamUrl, concurrency, redisUrl, createDatabase }) {
      const home = join(directory, name)
      mkdirSync(home)
      const file = join(home, 'onceway.yaml')
      const [databaseUrl, cacheUrl] = [postgres ? await createDatabase(name, slow) : null, redis ? redisUrl() : null]
      const collector = settings.traced === true
        ? await startNode(`${name}-collector`, directory, [contestantFile('collector.ts')], {})
        : null
      const authority = settings.tls === true ? makeAuthority() : null
      const where = {
        upstreamUrl,
        databaseUrl,
        redisUrl: cacheUrl,
        collectorUrl: collector?.url ?? null,
        tls: authority?.sign('gateway', ['127.0.0.1']) ?? null
      }
      const write = (policy: string): void => { writeFileSync(file, configuration(settings, where, policy)) }
      const policyOf = (wish: Wish): string => works.includes('accept') ? inboxPolicy(settings, concurrency, wish) : 'profile: api'
      write(policyOf('free'))
      const args = ['serve', '--config', file, '--data-dir', join(home, 'store')]
      const child = await startNode(name, directory, [...builtMain(checkout), ...args], {})
      return {
        ...child,
        // Workers are threads or processes of their own, which nothing tells to count.
        allocations: workers === undefined ? child.allocations : null,
        async deliveries (wish) {
          write(policyOf(wish))
          await child.signal('SIGHUP', 'configuration reloaded')
        },
        async stop () {
          await child.stop()
          await collector?.stop()
          authority?.remove()
        }
      }
    }
  }
}

/** Held: one a second, which is the least that a route can be told. */
function inboxPolicy ({ ordered = false }: Onceway, concurrency: number, wish: Wish): string {
  const inbox = [
    `concurrency: ${concurrency}`,
    ...wish === 'held' ? ['rate: 1'] : [],
    ...ordered ? [`order: "header:${GROUP_HEADER}"`] : []
  ]
  return `profile: api, mode: inbox, inbox: { ${inbox.join(', ')} }`
}

const TRACED_RATIO = 0.01

interface Where {
  readonly upstreamUrl: string
  readonly databaseUrl: string | null
  readonly redisUrl: string | null
  readonly collectorUrl: string | null
  readonly tls: Signed | null
}

function configuration (
  { name, recentBytes, workers }: Onceway,
  { upstreamUrl, databaseUrl, redisUrl, collectorUrl, tls }: Where,
  policy: string
): string {
  const stores = [
    ...databaseUrl === null ? [] : [`  postgres: { url: "${databaseUrl}" }`],
    ...redisUrl === null ? [] : [`  redis: { url: "${redisUrl}", prefix: "${name}" }`]
  ]
  return [
    'version: 1',
    `listen: { host: 127.0.0.1, port: 0${tls === null ? '' : `, tls: { certFile: "${tls.cert}", keyFile: "${tls.key}" }`} }`,
    'admin: { host: 127.0.0.1, port: 0 }',
    ...workers === undefined ? [] : [`workers: ${workers}`],
    ...recentBytes === undefined ? [] : [`limits: { recentBytes: ${recentBytes} }`],
    ...collectorUrl === null ? [] : [`telemetry: { otlp: { url: "${collectorUrl}", sampleRatio: ${TRACED_RATIO} } }`],
    ...stores.length === 0 ? [] : ['stores:', ...stores],
    `upstreams: { charges: { url: "${upstreamUrl}" } }`,
    `routes: [{ name: charges, match: { path: ${PATH}, methods: [POST] }, upstream: charges, idempotency: { ${policy} } }]`,
    ''
  ].join('\n')
}

function contestantFile (name: string): string {
  return fileURLToPath(new URL(`contestants/${name}`, import.meta.url))
}

const BRIEF = new Set([
  BASELINE, FLOOR_REPLY, FLOOR_DURABLE, FLOOR_EMBEDDED, NODE_IDEMPOTENCY, 'onceway-embedded', 'onceway-postgres', ONCEWAY
])

/** Enough to say how fast it is here, and whether a change made it slower. */
export function briefly (): Contestant[] {
  return CONTESTANTS.filter(({ name }) => BRIEF.has(name))
    .map((contestant) => contestant.name === NODE_IDEMPOTENCY ? { ...contestant, works: ['first'] } : contestant)
}
