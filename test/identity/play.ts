/** Worlds, and pairs in them, played one after the other; what is met is counted, and what is wrong is told so that it can be repeated. */
import { Random } from '../chaos/random.ts'
import { curlOf, Deck, drawAsk, drawAround, render } from './asks.ts'
import type { Ask, Drawing, Sent } from './asks.ts'
import type { Stage } from './in-process.ts'
import { judge } from './judge.ts'
import type { Became, Heard, Kind, Pair } from './judge.ts'
import { CALLER, ELSEWHERE, FLAWS, REQUEST, SAME } from './mutations.ts'
import type { Mutation } from './mutations.ts'
import { drawWorld } from './world.ts'
import type { Place, World, WorldOptions } from './world.ts'

/** Of pairs: enough for most carriers to come, and few enough for many configurations. */
export const PER_WORLD = 200
/** It takes a second at most: two gateways on Postgres, and a machine that does much else. */
const WORLD_MS = 60_000
/** Of pairs that are played at once. */
const AT_ONCE = 8
/** Turns of the event loop in which a second request may be answered while the first one is held. */
const TURNS = 6

export interface Counts {
  /** By their kind, and by what else is to be known of a run. */
  readonly pairs: Map<string, number>
  /** By what was changed: `caller: a selector more`. */
  readonly changes: Map<string, number>
  readonly met: Set<string>
}

export function newCounts (): Counts {
  return { pairs: new Map(), changes: new Map(), met: new Set() }
}

export function addCounts (to: Counts, from: Counts): void {
  for (const kind of ['pairs', 'changes'] as const) {
    for (const [name, count] of from[kind]) to[kind].set(name, (to[kind].get(name) ?? 0) + count)
  }
  for (const each of from.met) to.met.add(each)
}

export interface Played { readonly pairs: number, readonly violations: readonly string[] }

export interface PlayOptions extends Pick<WorldOptions, 'marks' | 'switches'> {
  /** Of the first world. */
  readonly seed: number
  readonly pairs: number
  readonly store: string
  readonly open: (world: World) => Promise<Stage>
  /** Of one world. */
  readonly perWorld: number
  /** Sockets have no client certificate here. */
  readonly certificates: boolean
}

/** Ends at the first world with something wrong in it. */
export async function play (options: PlayOptions, counts: Counts): Promise<Played> {
  let played = 0
  for (let seed = options.seed; played < options.pairs; seed++) {
    const world = drawWorld(new Random(seed), { ...options, seed })
    const stage = await options.open(world)
    try {
      const pairs = Math.min(options.perWorld, options.pairs - played)
      const violations = await inTime(
        playWorld(world, stage, pairs, options, counts),
        `${options.store}, PAIRS_SEED=${world.seed}: not at an end after ${WORLD_MS} ms`
      )
      if (violations.length > 0) return { pairs: played, violations }
      played += pairs
    } finally {
      await stage.close()
    }
  }
  return { pairs: played, violations: [] }
}

/** Nothing of a world may wait for ever. */
async function inTime (violations: Promise<readonly string[]>, otherwise: string): Promise<readonly string[]> {
  const { promise, resolve } = Promise.withResolvers<readonly string[]>()
  const deadline = setTimeout(() => { resolve([otherwise]) }, WORLD_MS)
  try {
    return await Promise.race([violations, promise])
  } finally {
    clearTimeout(deadline)
  }
}

interface Begun { readonly pair: Pair, readonly sent: readonly [Sent, Sent], readonly first: Promise<Heard>, readonly letGo: () => void }

async function playWorld (
  world: World,
  stage: Stage,
  count: number,
  { certificates, store }: PlayOptions,
  counts: Counts
): Promise<string[]> {
  const random = new Random(world.seed).fork('pairs')
  const drawing: Drawing = { random, world, deck: new Deck(random) }
  const violations: string[] = []
  let messages = 0
  const note = (begun: Begun, became: readonly [Became, Became]): void => {
    countPair(counts, world, store, begun.pair)
    messages += new Set(became.flatMap(({ heard }) => heard.location ?? [])).size
    const wrong = judge(begun.pair, became, world.firstRules)
    if (wrong !== null) violations.push(told(world, begun, became, wrong))
  }
  const drawn = Array.from({ length: count }, (_, index) => drawPair(drawing, index, stage, certificates))
  if (world.next === null) {
    await inChunks(drawn, async (each) => { note(...await ended(stage, await begin(stage, each))) })
  } else {
    const begun: Begun[] = []
    await inChunks(drawn, async (each) => { begun.push(await begin(stage, each)) })
    await stage.switchScheme(world.seed % 2 === 0)
    await inChunks(begun, async (each) => { note(...await ended(stage, each)) })
  }
  const inInbox = await stage.messages()
  if (violations.length === 0 && inInbox !== messages) {
    violations.push(`${store}, PAIRS_SEED=${world.seed}: ${inInbox} messages are in the inbox, and clients were told of ${messages}`)
  }
  return violations
}

async function inChunks<Each> (list: readonly Each[], work: (each: Each) => Promise<void>): Promise<void> {
  for (let at = 0; at < list.length; at += AT_ONCE) await Promise.all(list.slice(at, at + AT_ONCE).map(work))
}

interface Drawn { readonly pair: Pair, readonly sent: readonly [Sent, Sent] }

async function begin (stage: Stage, { pair, sent }: Drawn): Promise<Begun> {
  const [first] = sent
  const held = pair.during ? stage.hold?.(first.id) ?? null : null
  const heard = stage.ask(pair.seats[0], first)
  await (held === null ? heard : Promise.race([held.there, heard]))
  return { pair, sent, first: heard, letGo: held?.letGo ?? (() => {}) }
}

async function ended (stage: Stage, begun: Begun): Promise<[Begun, [Became, Became]]> {
  const { pair, sent: [first, second], letGo } = begun
  const asking = stage.ask(pair.seats[1], second)
  if (pair.during) await Promise.race([asking, turns()])
  letGo()
  const heard = [await begun.first, await asking] as const
  return [begun, [{ heard: heard[0], executed: stage.executed(first.id) }, { heard: heard[1], executed: stage.executed(second.id) }]]
}

async function turns (): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await new Promise((resolve) => { setImmediate(resolve) })
}

// ---------------------------------------------------------------- a pair

const OFTEN: Readonly<Record<Kind, number>> = { same: 36, caller: 34, request: 14, elsewhere: 3, refused: 13 }
/** To change a request in one way, before another way is tried. */
const TRIES = 50
/** The second one comes while the first one is executed. */
const DURING = 0.06

function drawPair (drawing: Drawing, index: number, stage: Stage, certificates: boolean): Drawn {
  const { random, world } = drawing
  let kind: Kind = 'same'
  for (let tries = 0; ; tries++) {
    // A world may have none of a kind: all callers are one, say.
    if (!world.firstRules && tries % TRIES === 0) kind = random.weighted(OFTEN)
    const place = random.pick(world.places)
    const ask = drawAsk(drawing, place, `k${world.seed}-${index}.`, certificates)
    const made = makePair(drawing, kind, ask)
    if (made === null) continue
    const seats = [random.between(0, stage.seats - 1), random.between(0, stage.seats - 1)] as const
    const [{ place: { mode }, deferred }] = made.asks
    const during = stage.hold !== null && random.chance(DURING) && mode !== 'inbox' && !deferred && made.flaws[0] === null
    const pair: Pair = { ...made, index, kind, seats, during }
    return {
      pair,
      sent: [render(random, `${world.seed}-${index}-1`, made.asks[0]), render(random, `${world.seed}-${index}-2`, made.asks[1])]
    }
  }
}

type Made = Pick<Pair, 'changes' | 'asks' | 'flaws'>

function makePair (drawing: Drawing, kind: Kind, ask: Ask): Made | null {
  switch (kind) {
    case 'same': return related(drawing, SAME, ask)
    case 'caller': return related(drawing, CALLER, ask)
    case 'request': return related(drawing, REQUEST, ask)
    case 'elsewhere': return related(drawing, ELSEWHERE, ask)
    case 'refused': return refused(drawing, ask)
  }
}

/** Dressed otherwise or not, and either one first: what is between the two holds both ways. */
function related (drawing: Drawing, mutations: readonly Mutation[], ask: Ask): Made | null {
  const { random } = drawing
  const mutation = random.pick(mutations)
  const changed = mutation.change(drawing, ask)
  if (changed === null) return null
  const dressed = random.chance(0.6) ? dress(drawing, changed) : { ask: changed, changes: [] }
  const changes = [mutation.name, ...dressed.changes]
  return { changes, asks: random.chance(0.5) ? [ask, dressed.ask] : [dressed.ask, ask], flaws: [null, null] }
}

/** Some of what its own caller may change. */
function dress (drawing: Drawing, ask: Ask): { readonly ask: Ask, readonly changes: readonly string[] } {
  const { random } = drawing
  let dressed = ask
  const changes: string[] = []
  for (const { name, change } of random.shuffled(SAME).slice(0, random.between(1, 5))) {
    const changed = change(drawing, dressed)
    if (changed === null) continue
    dressed = changed
    changes.push(name)
  }
  return { ask: dressed, changes }
}

function refused (drawing: Drawing, ask: Ask): Made | null {
  const { random } = drawing
  const flaw = random.pick(FLAWS)
  const wrong = flaw.change(drawing, ask)
  if (wrong === null) return null
  const changes = [flaw.name]
  switch (random.between(0, 2)) {
    case 0: return { changes, asks: [ask, wrong], flaws: [null, flaw] }
    case 1: return { changes, asks: [wrong, ask], flaws: [flaw, null] }
    default:
      return {
        changes,
        asks: [
          wrong,
          {
            ...wrong,
            around: drawAround(random),
            spelled: true,
            lines: wrong.lines.map((line) => line.carrier?.class === 'rotating' ? { ...line, value: line.value.again(random) } : line)
          }
        ],
        flaws: [flaw, flaw]
      }
  }
}

// ---------------------------------------------------------------- what is counted, and told

function countPair (
  { pairs, changes, met }: Counts,
  world: World,
  store: string,
  { kind, changes: [changed = ''], asks, during }: Pair
): void {
  const add = (name: string): void => { pairs.set(name, (pairs.get(name) ?? 0) + 1) }
  add(kind)
  add(`on ${store}`)
  const change = `${kind}: ${changed}`
  changes.set(change, (changes.get(change) ?? 0) + 1)
  if (world.firstRules) add('by the first rules')
  if (world.next !== null) add('while the scheme is switched')
  if (during) add('while the first one is executed')
  met.add(`scheme ${schemeText(world.scheme)}${world.next === null ? '' : ` to ${schemeText(world.next)}`}`)
  for (const { place, lines } of asks) {
    countPlace(met, place)
    const carriers = lines.flatMap(({ carrier }) => carrier ?? [])
    for (const { name } of carriers) met.add(`carrier ${name}`)
    if (place.telling.carriers !== null && carriers.length <= 3) met.add(`shape ${carriers.map(({ class: cls }) => cls).sort().join('+')}`)
  }
}

const COUNTED = new WeakSet<Place>()

function countPlace (met: Counts['met'], place: Place): void {
  if (COUNTED.has(place)) return
  COUNTED.add(place)
  met.add(`profile ${place.profile}`)
    .add(`mode ${place.mode}`)
    .add(`sender ${place.sender.from}`)
    .add(`scope ${String(place.telling.written)}`)
    .add(`host ${place.preserve ? 'preserve' : 'upstream'}`)
  met.add(`verify ${place.signing === null ? 'none' : place.signing === 'by-key-id' ? place.signing : place.signing.scheme}`)
}

export function schemeText ({ rules, secret }: World['scheme']): string {
  return `${rules}${secret === null ? '' : ' with a secret'}`
}

function told (world: World, { pair, sent }: Begun, became: readonly [Became, Became], wrong: string): string {
  const { asks, kind, changes, during, seats } = pair
  const place = asks[0].place
  return [
    `${wrong} (${kind}: ${changes.join('; ')}${during ? '; while the first one is executed' : ''})`,
    `PAIRS_SEED=${world.seed}, pair ${pair.index}; scheme ${schemeText(world.scheme)}${world.next === null ? '' : `, then ${schemeText(world.next)}`}; proxies are ${world.trusted ? '' : 'not '}trusted; to process ${seats.join(', then ')}`,
    `route ${place.name}, upstream ${place.preserve ? 'told the host' : 'with its own host'}: ${JSON.stringify(place.file)}`,
    ...sent.map((each, index) =>
      `  ${curlOf(each)}\n  heard ${JSON.stringify(became[index]?.heard)}, executed ${became[index]?.executed.join(' ') || 'nothing'}`)
  ].join('\n')
}
