/**
 * Pairs of requests, a hundred thousand of them: none that differ in what identifies get each other's answer, and none that
 * are the same caller's retry are executed twice. What must hold of a pair is known from how it was made (mutations.ts), by
 * docs/concepts/identity.md and docs/reference/http.md; of the sources these files read the tables of names alone.
 *
 * `PAIRS` is how many are played in memory, `PAIRS_SEED` the seed of the first world of {@link PER_WORLD}. A failure names the
 * store and the world: `npm run pairs -- --on sqlite --seed 1000001 --pairs 200` plays it again.
 */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { CARRIERS } from '../../src/core/headers/carriers.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { playApart } from './apart.ts'
import { KINDS } from './judge.ts'
import type { Kind } from './judge.ts'
import { CALLER, ELSEWHERE, FLAWS, REQUEST, SAME } from './mutations.ts'
import type { Mutation } from './mutations.ts'
import { openOnPostgres, openOnSqlite } from './over-http.ts'
import { newCounts, PER_WORLD, play, schemeText } from './play.ts'
import type { PlayOptions } from './play.ts'
import { PRESET_NAMES } from './senders.ts'
import { MODES, SCHEMES, SCOPES, VERIFYING } from './world.ts'

const SEED = Number(process.env.PAIRS_SEED ?? 1)
/** So many that a hundred thousand are left without those by the first rules, of which less is asked. */
const PAIRS = Number(process.env.PAIRS ?? 108_000)
/** Fewer meet not everything that there is. */
const PAIRS_OF_ALL = 100_000
const LEAST = 100_000
/** Each on a thread, as many at once as a small machine has cores. */
const SHARES = 8
const AT_ONCE = 2
/** Twenty times what one takes on a machine of its own. */
const SHARE_MS = 160_000
/** Over sockets, and on the way of a disk or a server. */
const PAIRS_OVER_HTTP = Math.min(PAIRS, 2_000)
const OVER_HTTP_FROM = 1_000_000
const OVER_HTTP_MS = 160_000

const counts = newCounts()

async function playOverHttp (t: TestContext, options: Pick<PlayOptions, 'seed' | 'store' | 'open'>): Promise<void> {
  // What waits in a gateway holds no process.
  const alive = setInterval(() => {}, 1_000)
  t.after(() => { clearInterval(alive) })
  const { violations } = await play(
    { ...options, pairs: PAIRS_OVER_HTTP, perWorld: PER_WORLD, marks: 'database', switches: true, certificates: false },
    counts
  )
  assertNone(violations)
}

function assertNone (violations: readonly string[]): void {
  assert.equal(violations.length, 0, `\n${violations.slice(0, 3).join('\n\n')}\n`)
}

describe('pairs of requests: nobody gets another\'s answer, and nothing is executed twice', { concurrency: AT_ONCE }, () => {
  const share = Math.ceil(PAIRS / SHARES / PER_WORLD) * PER_WORLD
  for (let from = 0; from < PAIRS; from += share) {
    test(`through two gateways on a store in memory, from ${from}`, async () => {
      assertNone(await playApart({ seed: SEED + from / PER_WORLD, pairs: Math.min(share, PAIRS - from) }, SHARE_MS, counts))
    })
  }

  test('over HTTP, on the embedded store', { timeout: OVER_HTTP_MS }, async (t) => {
    await playOverHttp(t, { seed: SEED + OVER_HTTP_FROM, store: 'sqlite', open: async (world) => openOnSqlite(t, world) })
  })

  test('over HTTP, through two gateways on Postgres', { ...needs('postgres'), timeout: OVER_HTTP_MS }, async (t) => {
    const server = await startPostgres()
    try {
      await playOverHttp(t, {
        seed: SEED + 2 * OVER_HTTP_FROM,
        store: 'postgres',
        open: async (world) => openOnPostgres(t, world, server.url)
      })
    } finally {
      await server.stop()
    }
  })
})

/** Every class, alone, in pairs and in triples. */
function shapes (): string[] {
  const classes = ['rotating', 'selector', 'stable']
  const more = (shapes: readonly string[]): string[] =>
    shapes.flatMap((shape) => classes.filter((cls) => cls >= (shape.split('+').at(-1) ?? '')).map((cls) => `${shape}+${cls}`))
  const pairs = more(classes)
  return [...classes, ...pairs, ...more(pairs)]
}

const CHANGES: Readonly<Record<Kind, readonly Mutation[]>> = {
  same: SAME,
  caller: CALLER,
  request: REQUEST,
  elsewhere: ELSEWHERE,
  refused: FLAWS
}
/** Three quarters of what is met with any seed: who draws less of one has to say so here. */
const LEAST_OF: Readonly<Record<string, number>> = {
  same: 34_000,
  caller: 26_000,
  request: 10_500,
  elsewhere: 2_200,
  refused: 10_000,
  'while the first one is executed': 3_500,
  'while the scheme is switched': 12_000,
  'on sqlite': PAIRS_OVER_HTTP
}
/** Of each single way to differ, and each single way not to. */
const LEAST_OF_CHANGE = 40

test('and all there is was met: carriers, shapes, changes, scopes, senders, modes, schemes', { skip: PAIRS < PAIRS_OF_ALL }, (t) => {
  const all = [
    ...CARRIERS.map(({ name }) => `carrier ${name}`),
    ...shapes().map((shape) => `shape ${shape}`),
    ...SCOPES.map(([, { written }]) => `scope ${String(written)}`),
    ...PRESET_NAMES.map((name) => `sender ${name}`),
    ...MODES.map((mode) => `mode ${mode}`),
    ...['none', 'by-key-id', ...VERIFYING.map(({ scheme }) => scheme)].map((scheme) => `verify ${scheme}`),
    ...SCHEMES.map(([, scheme, next]) => `scheme ${schemeText(scheme)}${next === null ? '' : ` to ${schemeText(next)}`}`),
    'profile api', 'profile relay', 'host preserve', 'host upstream'
  ]
  assert.deepEqual(all.filter((each) => !counts.met.has(each)), [])
  const of = (name: string): number => counts.pairs.get(name) ?? 0
  const total = KINDS.reduce((sum, kind) => sum + of(kind), 0)
  assert.ok(
    total - of('by the first rules') >= Math.min(LEAST, PAIRS),
    `${total} pairs, ${of('by the first rules')} of them by the first rules`
  )
  const few = [
    ...Object.entries(LEAST_OF).filter(([name, least]) => of(name) < least).map(([name]) => `${of(name)} ${name}`),
    ...Object.entries(CHANGES)
      .flatMap(([kind, changes]) => changes.map(({ name }) => `${kind}: ${name}`))
      .map((name) => [name, counts.changes.get(name) ?? 0] as const)
      .filter(([, count]) => count < LEAST_OF_CHANGE)
      .map(([name, count]) => `${count} ${name}`)
  ]
  assert.deepEqual(few, [], 'too few of them')
  for (const [name, count] of counts.pairs) t.diagnostic(`${count} ${name}`)
})
