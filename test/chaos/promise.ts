/**
 * Whether the gateways tell truly which promise holds. The truth is read from the server that their address leads to, by a superuser and
 * by other statements than theirs. It may change before they look again, so it counts once it has stood for longer than that.
 */
import { query } from '../harness/postgres.ts'
import type { Injected } from './injector.ts'
import { pause } from './stores.ts'
import type { World } from './world.ts'

/** `either`: a standby is away that a gateway may have seen, or commits wait for whoever comes. */
export type Truth = 'strict' | 'weakened' | 'either'

/** The settings, and who follows. */
export interface Standing {
  readonly names: string
  readonly standbys: ReadonlyArray<{ readonly name: string, readonly sync: string }>
  /** Physical slots that nobody uses. */
  readonly waiting: readonly string[]
}

/** As Patroni writes the names: one, or all of a list. */
export function truthOf ({ names, standbys, waiting }: Standing, expected: number): Truth {
  if (names === '') return standbys.length + waiting.length > 0 ? 'weakened' : 'either'
  if (names === '*') return 'either'
  const [, count = '1', list = names] = /^(\d+) \((.*)\)$/.exec(names) ?? []
  const listed = list.split(',').map((name) => name.trim().replaceAll('"', ''))
  if (Number(count) !== listed.length) return 'either'
  if ([...standbys.map(({ name }) => name), ...waiting].some((name) => !listed.includes(name))) return 'weakened'
  return standbys.length === expected && standbys.every(({ sync }) => sync === 'sync') ? 'strict' : 'either'
}

const STANDBYS = 2
const READ = `select current_setting('synchronous_standby_names') as names,
  (select coalesce(json_agg(json_build_object('name', application_name, 'sync', sync_state)), '[]') from pg_stat_replication
    where application_name !~ '^pg_') as standbys,
  (select coalesce(json_agg(slot_name), '[]') from pg_replication_slots where slot_type = 'physical' and not temporary and not active) as waiting`
const READ_MS_MAX = 3_000

/** null: no server says so in time. */
export async function truthAt (url: string): Promise<Truth | null> {
  return query(url, READ, READ_MS_MAX).then(([row]) => row === undefined ? null : truthOf(row as unknown as Standing, STANDBYS), () => null)
}

export interface Look {
  readonly atMs: number
  readonly truth: Truth | null
  /** Of each gateway, from /readyz and from the metric. null: it did not say. */
  readonly said: ReadonlyArray<readonly string[] | null>
}

const LOOK_EVERY_MS = 500
const LOOK_MS_MAX = 3_000
/** A gateway looks every five seconds, in rounds of one second. The rest is for the machine. */
const NOTICED_WITHIN_MS = 10_000

export class PromiseWatch {
  readonly #world: Pick<World, 'stores' | 'seats'>
  readonly #looks: Look[] = []
  #looking: Promise<void> | null = null
  #over = false

  constructor (world: Pick<World, 'stores' | 'seats'>) {
    this.#world = world
  }

  start (): void {
    const { truth } = this.#world.stores
    if (truth !== undefined) this.#looking = this.#look(truth)
  }

  async stop (): Promise<void> {
    this.#over = true
    await this.#looking
  }

  judged (injected: readonly Injected[]): Judged {
    return judgePromises(this.#looks, (gateway, fromMs, untilMs) => injected.some((fault) =>
      fault.gateway === gateway && OF_A_GATEWAY.test(fault.kind) && fault.fromMs < untilMs && (fault.untilMs ?? Infinity) > fromMs))
  }

  async #look (truth: () => Promise<Truth | null>): Promise<void> {
    while (!this.#over) {
      const [now, ...said] = await Promise.all([truth(), ...this.#world.seats.map(async ({ adminUrl }) => saidAt(adminUrl))])
      this.#looks.push({ atMs: Date.now(), truth: now, said })
      await pause(LOOK_EVERY_MS)
    }
  }
}

/** It cannot look, or not reach the database. */
const OF_A_GATEWAY = /^(gateway|postgres-link)-/

async function saidAt (adminUrl: string | null): Promise<string[] | null> {
  if (adminUrl === null) return null
  const read = async (path: string): Promise<string> =>
    (await fetch(`${adminUrl}${path}`, { signal: AbortSignal.timeout(LOOK_MS_MAX) })).text()
  try {
    const [ready, metrics] = [await read('/readyz'), await read('/metrics')]
    const { promise } = JSON.parse(ready) as { readonly promise?: string }
    const metered = /^onceway_promise\{promise="(\w+)"\} 1$/m.exec(metrics)?.[1]
    return promise === undefined || metered === undefined ? null : [promise, metered]
  } catch { return null }
}

/** `judged`: how often, by what was true. */
export interface Judged { readonly judged: Readonly<Record<'strict' | 'weakened', number>>, readonly untrue: readonly string[] }

/** `excused`: a fault of this gateway's own was there. Each untruth is told once, however long it lasts. */
export function judgePromises (
  looks: readonly Look[],
  excused: (gateway: number, fromMs: number, untilMs: number) => boolean
): Judged {
  const judged = { strict: 0, weakened: 0 }
  const [untrue, lying, since] = [[] as string[], new Set<number>(), new Map<number, number>()]
  let last: Truth | null = null
  for (const { atMs, truth, said } of looks) {
    if (truth !== last) since.clear()
    last = truth
    for (const [gateway, words] of said.entries()) {
      if (words === null || truth === null || truth === 'either') since.delete(gateway)
      else if (!since.has(gateway)) since.set(gateway, atMs)
      const fromMs = since.get(gateway)
      if (truth === null || truth === 'either' || fromMs === undefined) continue
      if (atMs - fromMs < NOTICED_WITHIN_MS || excused(gateway, atMs - NOTICED_WITHIN_MS, atMs)) continue
      judged[truth]++
      const isTrue = words?.every((word) => word === truth) === true
      if (!isTrue && !lying.has(gateway)) {
        untrue.push(`gateway-${gateway} says ${words?.join(' and ')} at ${new Date(atMs).toISOString()}, and since ${atMs - fromMs} ms it is ${truth}`)
      }
      if (isTrue) lying.delete(gateway)
      else lying.add(gateway)
    }
  }
  return { judged, untrue }
}
