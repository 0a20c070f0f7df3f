/**
 * One run in mode inbox: a world, its senders and its operator, and the seed's faults for a given time. Then all faults end, waiting
 * messages are delivered, and the run is judged. Returns the text to print, and prints nothing.
 */
import { counted, sorted } from '../counts.ts'
import type { Counts } from '../counts.ts'
import { FAULTS } from '../faults.ts'
import type { FaultKind } from '../faults.ts'
import { Injector } from '../injector.ts'
import { planOf } from '../plan.ts'
import type { PlannedFault } from '../plan.ts'
import { Random } from '../random.ts'
import type { Stamp } from '../stamps.ts'
import { pause } from '../stores.ts'
import { faultLine, loggedAbout, toldFrom } from '../story.ts'
import type { StoryLine } from '../story.ts'
import type { TopologyName } from '../topologies/topologies.ts'
import { readLines } from '../witness.ts'
import type { Pace } from '../witness.ts'
import { inWorld } from '../world.ts'
import type { Mode, World } from '../world.ts'
import { installMessageAudit, readByHand, readChanges, readMessages, readPauses } from './audit.ts'
import type { ConsumerLine } from './consumer.ts'
import { happenedIn } from './happened.ts'
import type { InboxEvidence, InboxFound, Message } from './history.ts'
import { judgeInbox } from './judge.ts'
import { pausedIn } from './judge-times.ts'
import type { InboxJudgement } from './judge.ts'
import { InboxLedger } from './ledger.ts'
import { Operator, OPERATOR_HABITS } from './operator.ts'
import type { OperatorHabits } from './operator.ts'
import { inboxConfigOf } from './routes.ts'
import { INBOX_HABITS, Senders } from './senders.ts'
import type { InboxHabits } from './senders.ts'

export interface InboxOptions {
  readonly seed: number
  /** Under faults, at least: they go on until all messages have been sent, for up to FAULTS_LONGEST times as long. */
  readonly seconds: number
  readonly gateways: number
  readonly messages: number
  readonly topology?: TopologyName
  readonly emphasis?: InboxEmphasis
  /** Names of test/broken, with commas. */
  readonly broken?: string
}

/** What a run emphasises. Absent: nothing. */
export interface InboxEmphasis {
  readonly cards?: Readonly<Partial<Record<FaultKind, number>>>
  readonly plan?: readonly PlannedFault[]
  readonly habits?: Partial<InboxHabits>
  readonly operator?: Partial<OperatorHabits>
  readonly pauseMs?: number
  readonly pace?: Pace
  /** How long it waits at the end for what is open. A broken worker may never come to one. */
  readonly drainMs?: number
  /** A gateway pauses an inbox and tries it at least once, even if that is after the faults. */
  readonly mustPause?: boolean
}

export interface InboxResult {
  readonly seed: number
  readonly topology: TopologyName
  /** Under faults, as it came. */
  readonly seconds: number
  readonly gateways: number
  readonly faults: Counts
  readonly messages: number
  /** Before the last fault had ended. */
  readonly acceptedUnderFaults: number
  readonly deliveredUnderFaults: number
  readonly requests: number
  readonly answers: Counts
  readonly told: Counts
  readonly worstAnswerMs: number
  /** Messages as they stand at the end, by state. */
  readonly states: Counts
  /** By what was written: delivered 201, waiting HTTP_503, held ECONNRESET … */
  readonly ends: Counts
  readonly deliveries: number
  /** Deliveries of a message that the consumer had already. */
  readonly again: number
  /** 202s for what was accepted before. */
  readonly duplicates: number
  readonly byHand: Counts
  /** What came of targets, times, replays and pauses. */
  readonly happened: Counts
  /** From the last fault's end until nothing was open. */
  readonly drainedInMs: number
  readonly excused: number
  readonly violations: readonly ShownInboxViolation[]
  readonly without: Readonly<Record<string, string>>
}

export interface ShownInboxViolation extends Omit<InboxFound, 'invariant'> {
  readonly invariant: InboxFound['invariant'] | 'run'
  readonly history: readonly string[]
}

interface Ended { readonly seconds: number, readonly unanswered: number, readonly mendedMs: number, readonly drainedInMs: number }

const INBOX_MODE: Mode = {
  upstream: './inbox/consumer-process.ts',
  configsOf: (config) => [inboxConfigOf(config)],
  installAudit: installMessageAudit
}
/** Longer than elsewhere: a dead worker's messages return after fifteen seconds of contact, and others must proceed meanwhile. */
const PAUSE_MS = 3_000
/** A busy machine takes longer to send so many. */
const FAULTS_LONGEST = 4
/** Three times as long as a route's consumer has to fail before a gateway pauses it. And so many tries, on a machine that is busy. */
const PAUSED_WITHIN_MS = 4_500
const PAUSE_TURNS_MAX = 10
/** Senders wait for each other, and some must come back later. */
const ANSWERED_WITHIN_MS = 180_000
/** A worker's lease, as long a contact, a recovery, and the backlog of a whole run on a machine with two cores. */
const DRAINED_WITHIN_MS = 240_000

export async function runInbox (options: InboxOptions): Promise<InboxResult> {
  const { seed, gateways, topology = 'plain', emphasis = {}, broken = null } = options
  const fillsDisk = emphasis.plan === undefined && emphasis.cards === undefined
  return inWorld(
    { mode: INBOX_MODE, seed, topology, gateways, broken, connections: 1, pace: emphasis.pace ?? 'usual', fillsDisk },
    async (world) => new InboxRun(options, world).run()
  )
}

class InboxRun {
  readonly #options: InboxOptions
  readonly #world: World
  readonly #ledger = new InboxLedger()
  readonly #senders: Senders
  readonly #injector: Injector
  readonly #operator: Operator
  readonly #random: Random

  constructor (options: InboxOptions, world: World) {
    const { seed, messages, seconds, emphasis = {} } = options
    this.#options = options
    this.#world = world
    this.#random = new Random(seed)
    this.#senders = new Senders(world.doors, this.#ledger, this.#random.fork('senders'), {
      ...INBOX_HABITS,
      messages,
      seconds,
      ...emphasis.habits
    })
    this.#injector = new Injector(world)
    this.#operator = new Operator(world.seats[0]?.configFile ?? '', world.stores.database, this.#random.fork('operator'), {
      ...OPERATOR_HABITS,
      ...emphasis.operator
    })
  }

  async run (): Promise<InboxResult> {
    const { emphasis = {} } = this.#options
    const startedAt = performance.now()
    const coming = this.#senders.come()
    await this.#underFaults(coming)
    if (emphasis.mustPause === true) await this.#untilPaused()
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    await this.#world.witness.hurry()
    const mendedAt = performance.now()
    const mendedMs = Date.now()
    const unanswered = await this.#senders.closeUp(ANSWERED_WITHIN_MS)
    await coming
    await this.#operator.untilDone(emphasis.drainMs ?? DRAINED_WITHIN_MS, async (route) => this.#senders.sendOne(route))
    const drainedInMs = Math.round(performance.now() - mendedAt)
    return this.#result(await this.#evidence(), { seconds, unanswered, mendedMs, drainedInMs })
  }

  async #underFaults (coming: Promise<void>): Promise<void> {
    const { seconds, gateways, emphasis = {} } = this.#options
    const plan = emphasis.plan ??
      planOf(this.#random.fork('plan'), {
        seconds: seconds * FAULTS_LONGEST,
        gateways,
        pauseMs: emphasis.pauseMs ?? PAUSE_MS,
        without: this.#world.absent,
        cards: emphasis.cards ?? INBOX_CARDS
      })
    const startedAt = performance.now()
    const leftMs = (): number => Math.max(0, seconds * 1000 - (performance.now() - startedAt))
    let sent = false
    void coming.then(() => { sent = true })
    const over = this.#injector.run(plan, () => emphasis.plan === undefined && sent && leftMs() === 0).then(async () => pause(leftMs()))
    await Promise.all([over, this.#operator.lookAfter(over)])
  }

  /** Under faults, the consumer that is down may have had no delivery for long. */
  async #untilPaused (): Promise<void> {
    const { stores: { database } } = this.#world
    const isTried = async (): Promise<boolean> => pausedIn(await readPauses(database)).some(({ trials }) => trials > 0)
    for (let turn = 0; turn < PAUSE_TURNS_MAX && !await isTried(); turn++) {
      const down = this.#injector.run([{ kind: 'consumer-down', atMs: 0, forMs: PAUSED_WITHIN_MS, gateway: 0, room: 'consumer', force: 1 }])
      await Promise.all([down, this.#senders.sendOne('fails')])
    }
  }

  async #evidence (): Promise<InboxEvidence> {
    const { witness, witnessFile, stampsFile, network, stores, seats } = this.#world
    await this.#world.stopGateways()
    await Promise.all([witness.flush(), network.ask.flush()])
    return {
      calls: this.#ledger.calls,
      consumed: readLines<ConsumerLine>(witnessFile),
      stamps: readLines<Stamp>(stampsFile),
      changes: await readChanges(stores.database),
      byHand: await readByHand(stores.database),
      pauses: await readPauses(stores.database),
      rows: await readMessages(stores.database),
      incarnations: new Map(seats.map(({ name, incarnations }) => [name, incarnations]))
    }
  }

  // -------------------------------------------------------------- what is said of it

  #result (evidence: InboxEvidence, { seconds, unanswered, mendedMs, drainedInMs }: Ended): InboxResult {
    const { seed, gateways, topology = 'plain' } = this.#options
    const judgement = judgeInbox(evidence)
    const { calls, rows, byHand } = evidence
    const deliveries = Array.from(judgement.messages.values()).flatMap(({ sendings }) => sendings)
    const seen = new Set(deliveries.filter(({ print }) => print !== null).map(({ record }) => record)).size
    return {
      seed,
      topology,
      seconds,
      gateways,
      faults: sorted(this.#injector.counts),
      messages: rows.length,
      acceptedUnderFaults: Array.from(judgement.messages.values()).filter(({ changes: [first] }) =>
        first !== undefined && first.atMs < mendedMs).length,
      deliveredUnderFaults: deliveries.filter(({ atMs }) => atMs < mendedMs).length,
      requests: calls.length,
      answers: sorted(this.#ledger.answers),
      told: sorted(this.#ledger.kinds),
      worstAnswerMs: this.#ledger.worstAnswerMs,
      states: counted(rows.map(({ state }) => state)),
      ends: counted(Array.from(judgement.messages.values()).flatMap(endsOf)),
      deliveries: deliveries.length,
      again: deliveries.filter(({ print }) => print !== null).length - seen,
      duplicates: calls.filter(({ told }) => told?.kind === 'accepted').reduce((sum, { wish: { parts } }) => sum + parts.length, 0) -
        rows.length,
      byHand: counted(byHand.map(({ action, state }) => `${action} ${state}`)),
      happened: happenedIn(evidence, judgement.messages),
      drainedInMs,
      excused: judgement.excused,
      violations: [
        ...judgement.found.map((each): ShownInboxViolation => ({ ...each, history: this.#story(judgement, each.record) })),
        ...this.#troubles(unanswered)
      ],
      without: this.#world.without
    }
  }

  /** No invariant's sentence, and never right: a process that ended by itself, an answer that nothing allows, a sender without one. */
  #troubles (unanswered: number): ShownInboxViolation[] {
    const troubles = [
      ...this.#world.trouble,
      ...this.#injector.trouble,
      ...this.#ledger.strange,
      ...unanswered === 0 ? [] : [`${unanswered} senders were not answered for good when everything was well again`]
    ]
    return troubles.map((detail) => ({ invariant: 'run', record: '', detail, history: [] }))
  }

  /** Everything that is known of a message, what the gateways logged about it included, and which faults stood meanwhile. */
  #story ({ messages }: InboxJudgement, record: string): string[] {
    const message = messages.get(record)
    if (message === undefined) return []
    const lines = [...linesOf(message), ...loggedAbout(record, this.#world.seats)]
    const [fromMs, untilMs] = [Math.min(...lines.map(({ atMs }) => atMs)), Math.max(...lines.map(({ atMs }) => atMs))]
    const faults = this.#injector.injected.filter(({ fromMs: begun, untilMs: ended }) => begun <= untilMs && (ended ?? Infinity) >= fromMs)
    return toldFrom(fromMs, [...lines, ...faults.map(faultLine)])
  }
}

/** What a run deals by itself. `freeze-lease` is the inbox's own. */
const INBOX_CARDS: Readonly<Partial<Record<FaultKind, number>>> = {
  ...Object.fromEntries(Object.entries(FAULTS).map(([kind, { cards }]) => [kind, cards])),
  'gateway-kill': 4,
  'gateway-freeze-lease': 1,
  'consumer-down': 4
}

function endsOf ({ changes }: Message): string[] {
  return changes.flatMap(({ state, status, error }, index) =>
    changes[index - 1]?.state === 'delivering' ? [`${state} ${error ?? status}`] : [])
}

function linesOf ({ record, calls, sendings, changes, byHand }: Message): StoryLine[] {
  return [
    ...calls.flatMap(({ call, atMs, door, prefers, told, toldMs, wish }) => [
      { atMs, text: `asked    ${call} at gateway-${door}: ${wish.method} ${wish.target}${prefers ? ' by wish' : ''}, print ${wish.parts.find((part) => part.record === record)?.print}` },
      { atMs: toldMs ?? atMs, text: `told     ${call}: ${told?.kind ?? 'nothing'}` }
    ]),
    ...sendings.flatMap(({ atMs, attempt, call, print, answer, isExecution }) => [
      { atMs, text: `sent     ${isExecution ? 'execution' : 'delivery'} ${attempt} of ${call}, ${print === null ? 'not seen by the consumer' : `print ${print}`}` },
      ...answer === null ? [] : [{ atMs: answer.atMs, text: `answered ${attempt} with ${answer.status}` }]
    ]),
    ...changes.map(({ atMs, state, attempt, tries, status, error, owner }) => ({
      atMs,
      text: `wrote    ${state}, attempt ${attempt}, try ${tries}, ${error ?? status ?? '-'}${owner === null ? '' : `, owner ${owner.slice(0, 6)}`}`
    })),
    ...byHand.map(({ atMs, action, state, attempt }) => ({ atMs, text: `operator ${action} of ${state}, attempt ${attempt}` }))
  ]
}
