/**
 * A rolling upgrade, and back: gateways of one release are replaced by those of another one after the other, under load,
 * with every state in the store. Returns what is wrong, in sentences; decides nothing about how long, or from where.
 */
import { Client } from 'pg'
import { eventually } from '../harness/eventually.ts'
import { cross } from './crossing.ts'
import { Load } from './load.ts'
import { BY_HAND, killedDelivery, MESSAGES } from './messages.ts'
import type { Release } from './release.ts'
import { wrongNames } from './names.ts'
import type { Switched } from './names.ts'
import { KILLED, killedEvents, marks, RECORDS } from './stories.ts'
import type { Tale } from './tale.ts'
import { startWorld } from './world.ts'
import type { Ending, Seat, Stores, World } from './world.ts'

export interface PlayOptions {
  readonly stores: Stores
  /** What each gateway runs, one after the other; the first one writes what the others find. */
  readonly releases: readonly Release[]
  /** So long the last two go on taking turns. */
  readonly seconds?: number
  /** Then ids are upgraded, once all run this release, and a gateway is killed. Absent: they are not. */
  readonly ids?: { readonly release: Release, readonly killed: Killed }
}

/** When, by the command that upgrades the ids. The embedded store's gateway is none that runs meanwhile. */
export type Killed = 'before' | 'meanwhile' | 'after'

export interface Played { readonly findings: readonly string[], readonly counts: string }

export async function play (ending: Ending, { stores, releases, seconds = 0, ids }: PlayOptions): Promise<Played> {
  const endsAtMs = performance.now() + seconds * 1000
  const acts = new Acts(await startWorld(ending, stores, releases[0] as Release))
  await acts.begin(releases[0] as Release)
  // What is broken for good is broken for whatever comes after it.
  let act = 1
  for (; acts.findings.length === 0 && (act < releases.length || performance.now() < endsAtMs); act++) {
    if (act > 1) await acts.tell(inTurn(releases, act - 1))
    await acts.replaceAll(inTurn(releases, act))
  }
  if (ids !== undefined) await upgradeIds(acts, { ...ids, earlier: releases[0] as Release, running: inTurn(releases, act - 1) })
  return acts.end()
}

/** With every state in the store; and once more what gateways that are replaced behind it have to find. */
async function upgradeIds (
  acts: Acts,
  { release, killed, earlier, running }: {
    readonly release: Release
    readonly killed: Killed
    readonly earlier: Release
    readonly running: Release
  }
): Promise<void> {
  const scenes = [
    ...running === release ? [] : [async () => acts.replaceAll(release)],
    async () => acts.tell(release),
    async () => acts.upgradeIds(release, killed, earlier),
    async () => acts.tell(release),
    async () => acts.replaceOthers(release)
  ]
  for (const scene of scenes) if (acts.findings.length === 0) await scene()
}

/** Once all had their turn, the last two take turns: back, and forth. */
function inTurn (releases: readonly Release[], act: number): Release {
  const last = releases.length - 1
  return releases[act <= last ? act : last - (act - last) % 2] as Release
}

class Acts {
  readonly findings: string[] = []
  readonly #world: World
  readonly #tales: Tale[] = []
  /** Those that have seen another release than their own. */
  readonly #continued = new Set<Tale>()
  #load: Load | null = null
  #switched: Switched | null = null

  constructor (world: World) {
    this.#world = world
  }

  async begin (release: Release): Promise<void> {
    const world = this.#world
    const last = world.seats.at(-1) as Seat
    await this.tell(release)
    await this.#beginAt(last)
    await last.kill()
    await last.start(release)
    await world.balancer.ready(last)
    this.#load = new Load(world)
    await this.#load.begun()
  }

  async replaceAll (release: Release, seats = this.#world.seats): Promise<void> {
    for (const seat of seats) {
      await this.#try(`replaced by ${release.name}`, async () => this.#replace(seat, release))
      // In between the two differ, and both must say the same.
      await this.#stillHolds(`while gateways are replaced by ${release.name}`)
    }
    await this.#continue(`under ${release.name}`)
  }

  /**
   * Beside the gateways that run, or with the embedded store's stopped; and one of them is killed with everything under way at it.
   * From then on the release before is shut out.
   */
  async upgradeIds (release: Release, killed: Killed, earlier: Release): Promise<void> {
    const world = this.#world
    const dying = world.seats.at(-1) as Seat
    await this.#try('ids upgrade', async () => {
      await dying.withdraw(world.balancer)
      await this.#beginAt(dying)
      const kill = async (): Promise<void> => dying.kill()
      if (killed === 'before' || world.isEmbedded) await kill()
      const begunAtMs = Date.now()
      const upgrading = (world.seats[0] as Seat).command('ids', 'upgrade', '--yes', '--why', 'every gateway can')
      if (killed === 'meanwhile' && world.database !== null) await heldUp(world.database, kill)
      await upgrading
      this.#switched = { begunAtMs, endedAtMs: Date.now(), secret: dying.secret }
      if (killed === 'after' && !world.isEmbedded) await kill()
      const said = await dying.refused(earlier)
      if (!said.includes(NO_WAY_BACK)) throw new Error(`${earlier.name} should be told that there is no way back, and says: ${said}`)
      await dying.start(release)
      await world.balancer.ready(dying)
    })
    await this.#stillHolds('when the ids are upgraded')
    await this.#continue('when the ids are upgraded')
  }

  /** All but the one that was killed when ids were upgraded, where there are others. */
  async replaceOthers (release: Release): Promise<void> {
    const { seats } = this.#world
    await this.replaceAll(release, seats.length === 1 ? seats : seats.slice(0, -1))
  }

  /** Leaves every state behind. */
  async tell (release: Release): Promise<void> {
    const isFirst = this.#tales.length === 0
    const stories = [...RECORDS, ...MESSAGES, ...isFirst ? BY_HAND : [], ...marks(this.#world)]
    await Promise.all(stories.map(async (story) => this.#try(`begun under ${release.name}`, async () => {
      this.#tales.push(await story(this.#world, isFirst))
    })))
  }

  async end (): Promise<Played> {
    await this.#load?.stop()
    // A play that went wrong is over: what it left half done proves nothing more.
    if (this.findings.length === 0) await this.#all('in the end', this.#tales, async (tale) => tale.end?.())
    const findings = [
      ...this.findings,
      ...await this.#load?.findings(this.findings.length > 0) ?? [],
      ...wrongNames(this.#world, this.#switched)
    ]
    return { findings, counts: `${this.#tales.length} stories, ${this.#load?.counts}` }
  }

  async #replace (seat: Seat, release: Release): Promise<void> {
    const { leave, check } = await cross(this.#world, seat)
    leave()
    await seat.terminate()
    await seat.start(release)
    await this.#world.balancer.ready(seat)
    await check()
  }

  /** Everything that can be under way where a gateway is killed. */
  async #beginAt (seat: Seat): Promise<void> {
    for (const killed of [...KILLED, ...killedEvents(this.#world), killedDelivery]) this.#tales.push(await killed(this.#world, seat))
  }

  async #continue (when: string): Promise<void> {
    await this.#all(when, this.#tales.filter((tale) => !this.#continued.has(tale)), async (tale) => {
      this.#continued.add(tale)
      await tale.next?.()
    })
    await this.#stillHolds(when)
  }

  async #stillHolds (when: string): Promise<void> {
    for (const seat of this.#world.seats) await this.#all(when, this.#tales, async (tale) => tale.still?.(seat))
  }

  async #all (when: string, tales: readonly Tale[], act: (tale: Tale) => Promise<void>): Promise<void> {
    await Promise.all(tales.map(async (tale) => this.#try(`${tale.name}, ${when}`, async () => act(tale))))
  }

  async #try (what: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      this.findings.push(`${what}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}

/** What a build is told that a later one has left behind (store/postgres/migrate.ts, and SQLite's). */
const NO_WAY_BACK = 'was migrated by a newer release'

/** A transaction that has written stands in the way of the command: `act` while it waits for it. */
async function heldUp (database: string, act: () => Promise<void>): Promise<void> {
  const client = new Client({ connectionString: database })
  await client.connect()
  try {
    await client.query('begin')
    await client.query('lock table onceway.records in row exclusive mode')
    await eventually(async () =>
      (await client.query(
        "select from pg_locks where not granted and mode = 'ShareRowExclusiveLock'"
      )).rowCount === 1, 'the command waits', STARTS_WITHIN_MS)
    await act()
    await client.query('commit')
  } finally {
    await client.end()
  }
}

const STARTS_WITHIN_MS = 20_000
