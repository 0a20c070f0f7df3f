/**
 * The gateway and the consumer behind a relay. Mode forward: the relay gets the consumer's answer, and only the relay is killed. Mode
 * inbox: the relay gets 202 when its message is stored, and relay, gateway and consumer are killed.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { DatabaseSync } from 'node:sqlite'
import type { Random } from '../../test/chaos/random.ts'
import { countAt, duplicatesAt, messagesAt } from './door.ts'
import type { Setting } from './example.ts'
import { judge } from './judge.ts'
import type { Verdict } from './judge.ts'
import { judgeInbox } from './judge-inbox.ts'
import type { Arrival, Event } from './judge-inbox.ts'
import { killUntilFinished, moving } from './killer.ts'
import { Seat } from './seat.ts'
import type { Consumer, Program, Stage } from './stage.ts'

export const MODES = ['forward', 'inbox'] as const
export type Mode = typeof MODES[number]

export interface Receiver {
  /** The gateway's. */
  readonly url: string
  /** Number of deliveries to the consumer. It only grows. */
  readonly progress: () => number
  /** Kills until the relay has nothing left (`handedOver`), and no message waits in the inbox. */
  readonly killUntil: (relay: Program, handedOver: () => boolean | Promise<boolean>) => Promise<void>
  readonly verdict: (events: readonly Event[], remarks: readonly string[]) => Promise<Verdict>
}

/** Least and most deliveries between two kills, which is two to ten batches of a relay. */
const BETWEEN_KILLS = [100, 500] as const
/** After this many deliveries, all three are killed, so that each has died once in every run. */
const FIRST_BLOW_AT = 20
/** Longest outage of the consumer. */
const DOWN_MS_MAX = 1_000
const SELDOM_MS = 500
/** The gateway counts its inbox every second. The inbox is empty if the count has been 0 for this time. */
const TOLD_MS = 3_000
const LOST_MS = 5 * TOLD_MS

/** `example`: the directory of its configurations. */
export async function receiver (
  example: string,
  env: Readonly<Record<string, string>>,
  { stage, mode, size, random }: Setting
): Promise<Receiver> {
  return mode === 'forward' ? forwarding(example, env, stage, random) : accepting(example, env, { stage, size, random })
}

async function forwarding (example: string, env: Readonly<Record<string, string>>, stage: Stage, random: Random): Promise<Receiver> {
  const consumer = await stage.consumer()
  const gateway = await stage.gateway(`${example}/onceway.yaml`, { ...env, ONCEWAY_UPSTREAMS_CONSUMER_URL: consumer.url })
  const progress = () => consumer.ledger.count()
  let kills = 0
  return {
    url: gateway.url,
    progress,
    killUntil: async (relay, finished) => {
      kills += await killUntilFinished({ random, progress, between: BETWEEN_KILLS, strike: async () => relay.restart(), finished })
    },
    verdict: async (events, remarks) =>
      judge(events.map(({ id }) => id), consumer.ledger.all(), await duplicatesAt(gateway), [`relay killed ${kills} times`, ...remarks])
  }
}

async function accepting (
  example: string,
  env: Readonly<Record<string, string>>,
  { stage, size, random }: Omit<Setting, 'mode'>
): Promise<Receiver> {
  const database = stage.path('consumer.db')
  const consumer = await stage.consumer('inbox-consumer.ts', { DATABASE: database })
  const seat = await Seat.taken(stage, `${example}/onceway.inbox.yaml`, { ...env, ONCEWAY_UPSTREAMS_CONSUMER_URL: consumer.url })
  const progress = () => consumer.ledger.count()
  const kills = { relay: 0, gateway: 0, consumer: 0 }
  let duplicates = 0
  let emptySinceMs = Infinity
  const blows = {
    relay: async (relay: Program) => relay.restart(),
    gateway: async () => {
      // A killed gateway loses its counts.
      duplicates += await countAt(seat.gateway, 'accepted-again')
      await seat.restart()
      // The new gateway has not counted its inbox yet.
      emptySinceMs = Infinity
    },
    consumer: async () => outage(consumer, random)
  }
  const kill = async (relay: Program, ...victims: ReadonlyArray<keyof typeof kills>): Promise<void> => {
    await Promise.all(victims.map(async (victim) => {
      kills[victim]++
      await blows[victim](relay)
    }))
  }
  /** Kills the victims in turn. */
  const strike = (relay: Program, ...victims: Array<keyof typeof kills>) => async (): Promise<void> => {
    const victim = victims.shift() as keyof typeof kills
    victims.push(victim)
    await kill(relay, victim)
  }
  /** The inbox is empty. If changes are missing, it must be empty for longer, until they count as lost. */
  const delivered = async (): Promise<boolean> => {
    consumer.program.check()
    const isEmpty = await messagesAt(seat.gateway, 'waiting', 'delivering') === 0
    emptySinceMs = isEmpty ? Math.min(emptySinceMs, performance.now()) : Infinity
    const emptyMs = performance.now() - emptySinceMs
    return emptyMs > LOST_MS || (emptyMs > TOLD_MS && deedsIn(database).length >= size)
  }
  return {
    url: seat.url,
    progress,
    killUntil: async (relay, handedOver) => {
      await moving(progress, () => progress() >= FIRST_BLOW_AT)
      await kill(relay, 'relay', 'gateway', 'consumer')
      await killUntilFinished({
        random,
        progress,
        between: BETWEEN_KILLS,
        strike: strike(relay, 'relay', 'consumer', 'gateway'),
        finished: handedOver
      })
      // Messages that the relay has handed over are still being delivered.
      await killUntilFinished({
        random,
        progress,
        between: BETWEEN_KILLS,
        strike: strike(relay, 'consumer', 'gateway'),
        finished: seldom(delivered)
      })
    },
    verdict: async (events, remarks) => judgeInbox({
      events,
      arrivals: consumer.ledger.all().map((line) => JSON.parse(line) as Arrival),
      deeds: deedsIn(database),
      duplicates: duplicates + await countAt(seat.gateway, 'accepted-again'),
      dead: await messagesAt(seat.gateway, 'dead')
    }, [...Object.entries(kills).map(([victim, times]) => `${victim} killed ${times} times`), ...remarks])
  }
}

/** Limits how often a costly condition is checked. In between it counts as false. */
function seldom (holds: () => Promise<boolean>): () => Promise<boolean> {
  let askedAtMs = -Infinity
  return async () => {
    if (performance.now() - askedAtMs < SELDOM_MS) return false
    const answer = await holds()
    askedAtMs = performance.now()
    return answer
  }
}

async function outage ({ program }: Consumer, random: Random): Promise<void> {
  await program.kill()
  await pause(random.between(0, DOWN_MS_MAX))
  await program.start()
}

function deedsIn (file: string): string[] {
  const database = new DatabaseSync(file, { readOnly: true })
  try {
    return database.prepare('select event from shipments order by position').all().map(({ event }) => String(event))
  } finally {
    database.close()
  }
}
