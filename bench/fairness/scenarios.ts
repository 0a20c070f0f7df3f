/** What may make healthy messages slow: each scenario is a stage, what happens on it, and what is told of the healthy ones. */
import { Client } from 'pg'
import type { Kind, Sent } from './consumer.ts'
import { startStage } from './stage.ts'
import type { Stage } from './stage.ts'

/** A figure and its unit: messages a second, or milliseconds. */
export type Figures = Readonly<Record<string, number>>

export interface Scenario {
  readonly what: string
  /** The checkout that was there before has no such setting. */
  readonly isNew?: true
  readonly play: (checkout: string | null) => Promise<Figures>
}

const BURST = 120_000
const TOTAL_RATE = 200
const WINDOW_MS = 5_000
/** A page of a shop's backlog: deliveries at once where the consumer takes time. */
const CONCURRENCY = 16

export const SCENARIOS: Readonly<Record<string, Scenario>> = {
  burst: {
    what: `${BURST} messages at once, nothing else`,
    play: (checkout) => burst(checkout, false)
  },
  'old-transaction': {
    what: `${BURST} messages at once, then a transaction stays open`,
    play: (checkout) => burst(checkout, true)
  },
  'retry-after': {
    what: 'ten healthy ones a second beside one of another tenant that always gets 429 with Retry-After: 20',
    play: retryAfter
  },
  'poison-400': {
    what: 'more than the consumer can take, and 10 % of them always get 400',
    play: (checkout) => saturated(checkout, 'bad-request')
  },
  'poison-500': {
    what: 'the same with 500',
    play: (checkout) => saturated(checkout, 'broken')
  },
  'no-poison': {
    what: 'the same without',
    play: (checkout) => saturated(checkout, null)
  },
  'retry-after-tenant': {
    what: 'the same, and a thousand messages of that tenant wait too',
    isNew: true,
    play: retryAfterOfTenant
  },
  'group-before-burst': {
    what: `a group of four, accepted before ${BURST} others`,
    play: groupBeforeBurst
  },
  'single-behind-groups': {
    what: 'ten single ones a second behind 200 groups of 200',
    play: singleBehindGroups
  },
  'total-rate': {
    what: `three gateways with a rate of ${TOTAL_RATE} together; one is killed after ten seconds`,
    isNew: true,
    play: totalRate
  }
}

// ---------------------------------------------------------------- bursts

async function burst (checkout: string | null, withTransaction: boolean): Promise<Figures> {
  const stage = await startStage({ checkout, inbox: ['concurrency: 64'], workMs: 0 })
  const other = new Client({ connectionString: stage.databaseUrl })
  try {
    await stage.accept(several('b', BURST))
    if (withTransaction) {
      await other.connect()
      await other.query('begin isolation level repeatable read')
      await other.query('select count(*) from onceway.workers')
    }
    const figures: Record<string, number> = {}
    for (const upTo of [5, 10, 15, 20, 25]) {
      figures[`per second, until ${upTo} s`] = await ratePerSecond(stage)
      if (stage.consumer.taken.size === BURST) break
    }
    return figures
  } finally {
    await other.end()
    await stage.stop()
  }
}

async function ratePerSecond ({ consumer: { taken } }: Stage): Promise<number> {
  const [before, beganAt] = [taken.size, performance.now()]
  await pause(WINDOW_MS)
  return Math.round((taken.size - before) / (performance.now() - beganAt) * 1_000)
}

// ---------------------------------------------------------------- poison

const STEADY_SECONDS = 30
const STEADY_PER_SECOND = 10
const WORK_MS = 20

/** The checkout before has no other choice than the route. */
async function retryAfter (checkout: string | null): Promise<Figures> {
  return beside(checkout, checkout === null ? ['retryAfter: message'] : [], 1)
}

async function retryAfterOfTenant (checkout: string | null): Promise<Figures> {
  return beside(checkout, ['retryAfter: "json:/tenant"'], 1_000)
}

/** Messages of a tenant that is always told to wait, and a steady stream of another's. */
async function beside (checkout: string | null, inbox: readonly string[], poor: number): Promise<Figures> {
  const stage = await startStage({ checkout, inbox: [`concurrency: ${CONCURRENCY}`, ...inbox], workMs: WORK_MS })
  try {
    await stage.accept(several('poor', poor).map((message): Sent => ({ ...message, kind: 'too-many', tenant: 'poor' })))
    return await latencies(stage, STEADY_PER_SECOND, 'h')
  } finally {
    await stage.stop()
  }
}

/** Time between the acceptance and the consumer's answer. What has not come when the stream ends counts up to then. */
async function latencies (stage: Stage, perSecond: number, series: string): Promise<Figures> {
  const accepted = new Map<string, number>()
  const running: Array<Promise<void>> = []
  const beganAt = performance.now()
  for (let number = 0; number < STEADY_SECONDS * perSecond; number++) {
    await pause(beganAt + number * 1_000 / perSecond - performance.now())
    const id = `${series}-${number}`
    running.push(stage.acceptOne({ id, kind: 'healthy', tenant: 'rich' }).then((atMs) => { accepted.set(id, atMs) }))
  }
  await Promise.all(running)
  await pause(1_000)
  const endedAt = performance.now()
  const { taken } = stage.consumer
  const all = Array.from(accepted, ([id, atMs]) => Math.max(0, (taken.get(id) ?? endedAt) - atMs)).sort((one, other) => one - other)
  return { 'p50 ms': at(all, 0.5), 'p99 ms': at(all, 0.99), 'not delivered': [...accepted.keys()].filter((id) => !taken.has(id)).length }
}

const SATURATED = 12_000
const POISON_EACH = 10
const POISONED_SECONDS = 25

/** More than the consumer takes: what is told is how many good ones it gets. */
async function saturated (checkout: string | null, poison: Kind | null): Promise<Figures> {
  const stage = await startStage({ checkout, inbox: [`concurrency: ${CONCURRENCY}`], workMs: 70 })
  try {
    const kindOf = (index: number): Kind => poison !== null && index % POISON_EACH === 0 ? poison : 'healthy'
    await stage.accept(several('s', SATURATED).map((message, index) => ({ ...message, kind: kindOf(index) })))
    const { taken } = stage.consumer
    await pause(WINDOW_MS)
    const [before, beganAt] = [taken.size, performance.now()]
    await pause(POISONED_SECONDS * 1_000)
    return { 'healthy per second': Math.round((taken.size - before) / (performance.now() - beganAt) * 1_000) }
  } finally {
    await stage.stop()
  }
}

// ---------------------------------------------------------------- groups

const GROUP_OF = 4
const GROUP_WITHIN_MS = 60_000

async function groupBeforeBurst (checkout: string | null): Promise<Figures> {
  const stage = await startStage({ checkout, inbox: [`concurrency: ${CONCURRENCY}`, 'order: "json:/group"'], workMs: 20 })
  try {
    const group = several('g', GROUP_OF).map((message): Sent => ({ ...message, group: 'one' }))
    const { taken } = stage.consumer
    await stage.accept(group)
    const beganAt = performance.now()
    const accepting = stage.accept(several('b', BURST))
    while (!taken.has(`g-${GROUP_OF - 1}`) && performance.now() - beganAt < GROUP_WITHIN_MS) await pause(20)
    const figures = { 'group handled after ms': Math.round((taken.get(`g-${GROUP_OF - 1}`) ?? performance.now()) - beganAt) }
    await accepting.catch(() => {})
    return figures
  } finally {
    await stage.stop()
  }
}

async function singleBehindGroups (checkout: string | null): Promise<Figures> {
  const stage = await startStage({ checkout, inbox: [`concurrency: ${CONCURRENCY}`, 'order: "json:/group"'], workMs: 20 })
  try {
    await stage.accept(several('g', 40_000).map((message, index): Sent => ({ ...message, group: String(index % 200) })))
    const { taken } = stage.consumer
    const before = taken.size
    const beganAt = performance.now()
    const figures = await latencies(stage, STEADY_PER_SECOND, 'h')
    const groups = [...taken.keys()].filter((id) => id.startsWith('g-')).length - before
    return { ...figures, 'groups per second': Math.round(groups / (performance.now() - beganAt) * 1_000) }
  } finally {
    await stage.stop()
  }
}

// ---------------------------------------------------------------- several gateways

const TOTAL_SECONDS = 30
const KILLED_AFTER_SECONDS = 10

async function totalRate (checkout: string | null): Promise<Figures> {
  const inbox = [`concurrency: ${CONCURRENCY}`, `total: { rate: ${TOTAL_RATE} }`]
  const stage = await startStage({ checkout, inbox, workMs: 0, gateways: 3 })
  try {
    await stage.accept(several('t', 2 * TOTAL_RATE * TOTAL_SECONDS))
    const { taken } = stage.consumer
    await pause(WINDOW_MS)
    const [before, beganAt] = [taken.size, performance.now()]
    await pause(KILLED_AFTER_SECONDS * 1_000)
    const middle = taken.size
    process.kill((stage.gateways[1] as Stage['gateways'][number]).pid, 'SIGKILL')
    const killedAt = performance.now()
    await pause((TOTAL_SECONDS - KILLED_AFTER_SECONDS) * 1_000)
    const perSecond = (count: number, ms: number): number => Math.round(count / ms * 10_000) / 10
    return {
      'per second': perSecond(taken.size - before, performance.now() - beganAt),
      'per second, after the kill': perSecond(taken.size - middle, performance.now() - killedAt)
    }
  } finally {
    await stage.stop()
  }
}

// ---------------------------------------------------------------- both

function several (series: string, count: number): Sent[] {
  return Array.from({ length: count }, (_, index) => ({ id: `${series}-${index}`, kind: 'healthy' }))
}

function at (sorted: readonly number[], share: number): number {
  return Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0)
}

async function pause (ms: number): Promise<void> {
  await new Promise((resolve) => { setTimeout(resolve, Math.max(0, ms)) })
}
