/** Messages that come at a steady pace, whatever became of those before; and how long each took to its consumer. */
import { Pool } from 'undici'
import { ACCEPTED, BODY, GROUP_HEADER, keyOf, PATH, TOKEN } from '../exchange.ts'
import type { Arrival } from '../nginx.ts'

export interface Steady {
  readonly url: string
  readonly series: string
  readonly seconds: number
  readonly perSecond: number
}

/** Times since 1970, whole milliseconds, as the consumer's. */
export interface Sent {
  readonly key: string
  readonly group: number
  readonly sentAtMs: number
  readonly answeredAtMs: number
  readonly status: number
}

/** Few enough that each has several messages under way now and then. */
const STEADY_GROUPS = 20
const CONNECTIONS = 64
const LOOK_EVERY_MS = 1

export async function comeAndGo ({ url, series, seconds, perSecond }: Steady): Promise<Sent[]> {
  const client = new Pool(url, { connections: CONNECTIONS })
  const asked: Array<Promise<Sent>> = []
  const beganAt = performance.now()
  try {
    while (asked.length < seconds * perSecond) {
      const due = Math.min(seconds * perSecond, (performance.now() - beganAt) * perSecond / 1_000)
      while (asked.length < due) asked.push(ask(client, keyOf(series, asked.length), asked.length % STEADY_GROUPS))
      await new Promise((resolve) => { setTimeout(resolve, LOOK_EVERY_MS) })
    }
    return await Promise.all(asked)
  } finally {
    await client.close()
  }
}

async function ask (client: Pool, key: string, group: number): Promise<Sent> {
  const sentAtMs = Date.now()
  const { statusCode, body } = await client.request({
    path: PATH,
    method: 'POST',
    headers: {
      authorization: `Bearer ${TOKEN}`,
      'content-type': 'application/json',
      'idempotency-key': key,
      [GROUP_HEADER]: String(group)
    },
    body: BODY
  })
  await body.dump()
  return { key, group, sentAtMs, answeredAtMs: Date.now(), status: statusCode }
}

// ---------------------------------------------------------------- judged

export function judgeSteady (sent: readonly Sent[], arrivals: readonly Arrival[], ordered: boolean): string[] {
  const refused = sent.filter(({ status }) => status !== ACCEPTED)
  const places = new Map(arrivals.map(({ key }, place) => [key, place]))
  const lost = sent.filter(({ key, status }) => status === ACCEPTED && !places.has(key))
  const outOfOrder = ordered
    ? pairsOf(sent).filter(([one, next]) => one.answeredAtMs < next.sentAtMs && (places.get(one.key) ?? 0) > (places.get(next.key) ?? 0))
    : []
  return [
    ...said(refused.length, `of ${sent.length} messages were not accepted`),
    ...said(lost.length, `of ${sent.length} accepted messages were not delivered`),
    ...said(arrivals.length - places.size, 'deliveries were of messages that had been delivered'),
    ...said(outOfOrder.length, 'messages overtook the one before them in their group')
  ]
}

function said (count: number, what: string): string[] {
  return count === 0 ? [] : [`${count} ${what}`]
}

/** Each with the one behind it in its group. */
function pairsOf (sent: readonly Sent[]): Array<readonly [Sent, Sent]> {
  const groups = Map.groupBy(sent, ({ group }) => group)
  return Array.from(groups.values()).flatMap((group) => group.slice(1).map((next, index) => [group[index] as Sent, next] as const))
}

// ---------------------------------------------------------------- timed

/** From the 202 to the consumer's own time; below nothing where the consumer was faster than the answer. */
export function latenciesOf (sent: readonly Sent[], arrivals: readonly Arrival[]): { readonly p50Ms: number, readonly p99Ms: number } {
  const arrived = new Map(arrivals.map(({ key, atMs }) => [key, atMs]))
  const all = sent.flatMap(({ key, answeredAtMs }) => {
    const atMs = arrived.get(key)
    return atMs === undefined ? [] : [atMs - answeredAtMs]
  }).sort((a, b) => a - b)
  return { p50Ms: percentile(all, 50), p99Ms: percentile(all, 99) }
}

/** Of whole milliseconds: those of one value are thought to lie evenly about it. */
function percentile (sorted: readonly number[], percent: number): number {
  const rank = sorted.length * percent / 100
  const value = sorted[Math.min(sorted.length - 1, Math.floor(rank))] ?? 0
  const first = sorted.indexOf(value)
  const count = sorted.lastIndexOf(value) - first + 1
  return value - 1 / 2 + (rank - first) / count
}
