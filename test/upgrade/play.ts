/**
 * A rolling upgrade, and back: gateways of one release are replaced by those of another one after the other, under load,
 * with every state in the store. Returns what is wrong, in sentences; decides nothing about how long, or from where.
 */
import { cross } from './crossing.ts'
import { Load } from './load.ts'
import { BY_HAND, killedDelivery, MESSAGES } from './messages.ts'
import type { Release } from './release.ts'
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
}

export interface Played { readonly findings: readonly string[], readonly counts: string }

export async function play (ending: Ending, { stores, releases, seconds = 0 }: PlayOptions): Promise<Played> {
  const endsAtMs = performance.now() + seconds * 1000
  const acts = new Acts(await startWorld(ending, stores, releases[0] as Release))
  await acts.begin(releases[0] as Release)
  // What is broken for good is broken for whatever comes after it.
  for (let act = 1; acts.findings.length === 0 && (act < releases.length || performance.now() < endsAtMs); act++) {
    if (act > 1) await acts.tell(inTurn(releases, act - 1))
    await acts.replaceAll(inTurn(releases, act))
  }
  return acts.end()
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

  constructor (world: World) {
    this.#world = world
  }

  async begin (release: Release): Promise<void> {
    const world = this.#world
    const last = world.seats.at(-1) as Seat
    await this.tell(release)
    for (const killed of [...KILLED, ...killedEvents(world), killedDelivery]) this.#tales.push(await killed(world, last))
    await last.kill()
    await last.start(release)
    await world.balancer.ready(last)
    this.#load = new Load(world)
    await this.#load.begun()
  }

  async replaceAll (release: Release): Promise<void> {
    for (const seat of this.#world.seats) {
      await this.#try(`replaced by ${release.name}`, async () => this.#replace(seat, release))
      // In between the two differ, and both must say the same.
      await this.#stillHolds(`while gateways are replaced by ${release.name}`)
    }
    await this.#all(`under ${release.name}`, this.#tales.filter(tale => !this.#continued.has(tale)), async tale => {
      this.#continued.add(tale)
      await tale.next?.()
    })
    await this.#stillHolds(`under ${release.name}`)
  }

  /** Leaves every state behind. */
  async tell (release: Release): Promise<void> {
    const isFirst = this.#tales.length === 0
    const stories = [...RECORDS, ...MESSAGES, ...isFirst ? BY_HAND : [], ...marks(this.#world)]
    await Promise.all(stories.map(async story => this.#try(`begun under ${release.name}`, async () => { this.#tales.push(await story(this.#world, isFirst)) })))
  }

  async end (): Promise<Played> {
    await this.#load?.stop()
    // A play that went wrong is over: what it left half done proves nothing more.
    if (this.findings.length === 0) await this.#all('in the end', this.#tales, async tale => tale.end?.())
    const findings = [...this.findings, ...await this.#load?.findings(this.findings.length > 0) ?? []]
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

  async #stillHolds (when: string): Promise<void> {
    for (const seat of this.#world.seats) await this.#all(when, this.#tales, async tale => tale.still?.(seat))
  }

  async #all (when: string, tales: readonly Tale[], act: (tale: Tale) => Promise<void>): Promise<void> {
    await Promise.all(tales.map(async tale => this.#try(`${tale.name}, ${when}`, async () => act(tale))))
  }

  async #try (what: string, act: () => Promise<void>): Promise<void> {
    try {
      await act()
    } catch (error) {
      this.findings.push(`${what}: ${error instanceof Error ? error.message : String(error)}`)
    }
  }
}
