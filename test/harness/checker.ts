/**
 * Checks the invariants of the protocol (I1–I11) over a history: executions by record, life and attempt, every answer, the final
 * rows, and the writes if the store was watched. Pure functions without a gateway.
 * So simulations and runs with real processes are held to the same rules.
 */
import { isWatched, livesOf } from './history.ts'
import type { History, Life, Placed, Rules, Told } from './history.ts'

/** `call`: the call whose answer was wrong (I11). */
export interface Violation { readonly invariant: Invariant, readonly record: string, readonly detail: string, readonly call?: string }

export const INVARIANTS = ['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'I10', 'I11'] as const
export type Invariant = typeof INVARIANTS[number]

/** All violations, in the order of the invariants. */
export function violationsOf (history: History): Violation[] {
  const view = viewOf(history)
  return INVARIANTS.flatMap((invariant) => Array.from(CHECKS[invariant](view), (finding) => ({ invariant, ...finding })))
}

type Finding = Omit<Violation, 'invariant'>
type Check = (view: View) => Iterable<Finding>

const CHECKS: Readonly<Record<Invariant, Check>> = {
  I1: sentAtMostOnce,
  I2: attemptsGrow,
  I3: storedAnswersAgree,
  I4: nothingAfterAStoredAnswer,
  I5: answersStayInTheirScope,
  I6: otherRequestsNeverRun,
  I7: settledStays,
  I8: everybodyIsAnswered,
  I9: nothingStaysClaimed,
  I10: releasedMeansUnsent,
  I11: storedMeansStored
}

// ---------------------------------------------------------------- the history, arranged

interface Answer extends Told {
  readonly call: string
  readonly place: number
  readonly atMs: number
  readonly request: Placed<'asked'>
  /** The life of the answer: that of its execution, else the current one. */
  readonly life: Life | null
  /** The lives that were current during the call. An answer that names no execution may be of any of them. */
  readonly lives: readonly Life[]
  readonly sent: Placed<'sent'> | null
}

interface View {
  readonly history: History
  readonly watched: boolean
  readonly lives: readonly Life[]
  readonly answers: readonly Answer[]
  readonly sendings: ReadonlyMap<number, Placed<'sent'>>
  readonly replies: ReadonlyMap<number, Placed<'replied'>>
  readonly rules: (life: Pick<Life, 'record'>) => Rules
}

function viewOf (history: History): View {
  const byRecord = livesOf(history)
  const lives = Array.from(byRecord.values()).flat()
  const sendings = new Map(lives.flatMap((life) => life.sendings).map((sent) => [sent.execution, sent]))
  const replies = new Map<number, Placed<'replied'>>()
  history.events.forEach((event, place) => { if (event.kind === 'replied') replies.set(event.execution, { ...event, place }) })
  const answers = answersOf(history, byRecord, sendings)
  return { history, watched: isWatched(history), lives, answers, sendings, replies, rules: ({ record }) => history.rulesOf(record) }
}

function answersOf (history: History, lives: Map<string, Life[]>, sendings: Map<number, Placed<'sent'>>): Answer[] {
  const requests = new Map<string, Placed<'asked'>>()
  history.events.forEach((event, place) => { if (event.kind === 'asked') requests.set(event.call, { ...event, place }) })
  return history.events.flatMap((event, place) => {
    const request = event.kind === 'told' ? requests.get(event.call) : undefined
    if (event.kind !== 'told' || request === undefined) return []
    const sent = event.told.execution === null ? null : sendings.get(event.told.execution) ?? null
    const own = lives.get(request.record) ?? []
    const life = sent === null
      ? own.findLast((candidate) => beginOf(candidate) < place)
      : own.find((candidate) => candidate.sendings.includes(sent))
    const begun = own.filter((candidate) => beginOf(candidate) < place)
    const current = begun.filter((_, index) => {
      const next = begun[index + 1]
      return next === undefined || beginOf(next) > request.place
    })
    return [{ ...event.told, call: event.call, place, atMs: event.atMs, request, life: life ?? null, lives: current, sent }]
  })
}

function beginOf (life: Life): number {
  return Math.min(...[...life.claims, ...life.sendings].map(({ place }) => place))
}

function isStored (answer: Told): boolean {
  return answer.kind === 'stored' || answer.kind === 'replayed'
}

function nameOf ({ record, number }: Life): string {
  return `record ${record.slice(0, 8)}, life ${number}`
}

// ---------------------------------------------------------------- I1, I2: sendings and claims

function * sentAtMostOnce (view: View): Generator<Finding> {
  for (const life of view.lives) {
    yield * sentUnclaimed(view, life)
    const mayRetry = ({ call }: Placed<'sent'>): boolean => (view.history.unknownOf?.(call) ?? view.rules(life).unknown) === 'retry'
    // Compare with the sending before it: earlier ones were allowed to be sent again. If some configurations allow it,
    // a claim in between that sent nothing was allowed too.
    const mixed = view.history.unknownOf !== undefined &&
      view.history.events.some((event) =>
        event.kind === 'asked' && event.record === life.record && view.history.unknownOf?.(event.call) === 'retry')
    const claimedBetween = (from: Placed<'sent'>, to: Placed<'sent'>): boolean =>
      mixed && life.claims.some(({ attempt }) => attempt > from.attempt && attempt < to.attempt)
    for (const [index, again] of life.sendings.entries()) {
      const bound = life.sendings[index - 1]
      if (
        bound === undefined ||
        view.replies.get(bound.execution)?.means === 'release' ||
        releasedByHand(life, bound.place, again.place) ||
        mayRetry(again) ||
        claimedBetween(bound, again)
      ) {
        continue
      }
      yield {
        record: life.record,
        detail: `${nameOf(life)}: execution ${again.execution} was sent after execution ${bound.execution}, which did not end as released`
      }
    }
  }
  yield * begunTooEarly(view)
}

/** Whether an operator or a probe released the record between these places. */
function releasedByHand (life: Life, from: number, to: number): boolean {
  return life.settles.some(({ by, outcome, place }) =>
    (by === 'operator' || by === 'probe') && outcome === 'released' && place > from && place < to)
}

function * sentUnclaimed (view: View, life: Life): Generator<Finding> {
  if (!view.watched) return
  for (const sent of life.sendings) {
    const claim = life.claims.find(({ attempt, place }) => attempt === sent.attempt && place < sent.place)
    if (claim === undefined) {
      yield {
        record: life.record,
        detail: `${nameOf(life)}: execution ${sent.execution} was sent under no claim of attempt ${sent.attempt}`
      }
    }
  }
}

/** A life ends only when its last settled state expires, or by a delete. */
function * begunTooEarly (view: View): Generator<Finding> {
  if (!view.watched) return
  for (const life of view.lives.filter(({ number }) => number > 1)) {
    const before = view.lives.find(({ record, number }) => record === life.record && number === life.number - 1)
    const begun = life.claims[0]
    const settled = before?.settles.at(-1)
    if (before === undefined || begun === undefined || before.deleted.length > 0) continue
    const over = settled !== undefined &&
      before.claims.every(({ place }) => place < settled.place) &&
      begun.atMs >= settled.atMs + settled.keepMs
    if (!over) yield { record: life.record, detail: `${nameOf(life)} began before the life before it was over` }
  }
}

function * attemptsGrow (view: View): Generator<Finding> {
  for (const life of view.lives) {
    const { record } = life
    for (const [index, claim] of life.claims.entries()) {
      const earlier = life.claims[index - 1]
      if (earlier === undefined) continue
      if (claim.attempt <= earlier.attempt) {
        yield { record, detail: `${nameOf(life)}: attempt ${claim.attempt} was claimed after attempt ${earlier.attempt}` }
      }
      const ended = life.settles.some(({ place }) => place > earlier.place && place < claim.place)
      if (!ended) yield { record, detail: `${nameOf(life)}: attempt ${claim.attempt} was claimed while attempt ${earlier.attempt} was` }
    }
    yield * sentTooLate(life)
    const attempts = life.sendings.map(({ attempt }) => attempt)
    if (new Set(attempts).size !== attempts.length) {
      yield { record, detail: `${nameOf(life)}: one attempt was sent twice (${attempts.join(', ')})` }
    }
  }
}

/** If the store was watched, the order is exact: a sending passed its lease check at its place in the history. */
function * sentTooLate (life: Life): Generator<Finding> {
  for (const sent of life.sendings) {
    const later = life.claims.find(({ attempt, place }) => attempt > sent.attempt && place < sent.place)
    if (later !== undefined) {
      yield {
        record: life.record,
        detail: `${nameOf(life)}: attempt ${sent.attempt} was sent after attempt ${later.attempt} had been claimed`
      }
    }
  }
}

// ---------------------------------------------------------------- I3, I4: stored answers

function * storedAnswersAgree (view: View): Generator<Finding> {
  const first = new Map<Life, Answer>()
  for (const answer of view.answers.filter(isStored)) {
    const { record } = answer.request
    if (answer.sent === null) yield { record, detail: `call ${answer.call} was told a stored answer that the upstream never gave` }
    // An answer of another record has no life here: I5 covers it.
    if (answer.life === null) continue
    const earlier = first.get(answer.life)
    if (earlier === undefined) {
      first.set(answer.life, answer)
    } else if (earlier.print !== answer.print) {
      yield { record, detail: `${nameOf(answer.life)}: calls ${earlier.call} and ${answer.call} were told different stored answers` }
    }
  }
}

function * nothingAfterAStoredAnswer (view: View): Generator<Finding> {
  for (const life of view.lives) {
    const told = view.answers.find((answer) => answer.life === life && (isStored(answer) || answer.kind === 'tombstone'))
    const later = told === undefined ? undefined : [...life.claims, ...life.sendings].find(({ place }) => place > told.place)
    if (later !== undefined) {
      yield {
        record: life.record,
        detail: `${nameOf(life)}: ${later.kind} with attempt ${later.attempt} after call ${told?.call} had been told ${told?.kind}`
      }
    }
  }
}

/** P10, if the beginnings of lives are known: a call after a new life began gets no answer of the earlier one. */
export function staleReplays (history: History): Array<Finding & { readonly call: string }> {
  const asked = new Map<string, number>()
  history.events.forEach((event, place) => { if (event.kind === 'asked') asked.set(event.call, place) })
  return Array.from(livesOf(history))
    .filter(([, { length }]) => length > 1)
    .flatMap(([record, lives]) => history.events.flatMap((event) => {
      if (event.kind !== 'told' || !isStored(event.told)) return []
      const { execution } = event.told
      const own = lives.findIndex(({ sendings }) => sendings.some((sent) => sent.execution === execution))
      const next = own === -1 ? undefined : lives[own + 1]?.claims[0]
      const stale = next !== undefined && (asked.get(event.call) ?? 0) > next.place
      return stale
        ? [{
            record,
            call: event.call,
            detail: `call ${event.call} asked after a new life had begun, and was told execution ${execution} of the one before`
          }]
        : []
    }))
}

// ---------------------------------------------------------------- I5, I6: whose answer, and to what

function * answersStayInTheirScope (view: View): Generator<Finding> {
  for (const { call, request, sent } of view.answers) {
    if (sent !== null && sent.scope !== request.scope) {
      yield { record: request.record, detail: `call ${call} of scope ${request.scope} was told an answer of scope ${sent.scope}` }
    }
  }
}

function * otherRequestsNeverRun (view: View): Generator<Finding> {
  for (const life of view.lives) {
    const [first, ...rest] = life.sendings
    const other = rest.find(({ asked }) => asked !== first?.asked)
    if (other !== undefined) {
      yield {
        record: life.record,
        detail: `${nameOf(life)}: execution ${other.execution} asked for something else than execution ${first?.execution}`
      }
    }
  }
  for (const answer of view.answers) yield * toldOfAnother(view, answer)
}

function * toldOfAnother (view: View, { kind, call, request, sent, life }: Answer): Generator<Finding> {
  const { record } = request
  const theirs = sent ?? (kind === 'tombstone' ? life?.sendings[0] : undefined)
  if (theirs !== undefined && theirs.asked !== request.asked && !view.rules({ record }).replaysMismatch) {
    yield { record, detail: `call ${call} was told the answer to another request (execution ${theirs.execution})` }
  }
  if (kind !== 'mismatch') return
  const asked = view.history.events.filter((event) => event.kind === 'asked' && event.record === record && event.asked !== request.asked)
  if (asked.length === 0) yield { record, detail: `call ${call} was told mismatch, and nobody asked for anything else` }
}

// ---------------------------------------------------------------- I7, I9, I10: the rows

function * settledStays (view: View): Generator<Finding> {
  for (const life of view.lives) {
    const kept = life.settles.find(({ outcome }) => outcome === 'completed' || outcome === 'consumed')
    const back = kept === undefined ? undefined : life.settles.find((settled) => isTakenBack(settled, kept))
    const later = kept === undefined || back !== undefined
      ? undefined
      : [...life.settles, ...life.claims].find((event) => event.place > kept.place && !isBroughtBack(life, kept, event))
    if (later !== undefined) {
      yield {
        record: life.record,
        detail: `${nameOf(life)}: ${later.kind === 'settled' ? later.outcome : later.kind} was written over ${kept?.outcome}`
      }
    }
    yield * resolvedStays(life)
    yield * keptToTheEnd(view, life)
  }
}

/** The only way back: the owner's tombstone of a stream that the upstream then broke off. */
function isTakenBack (settled: Life['settles'][number], kept: Life['settles'][number]): boolean {
  return settled.place > kept.place &&
    kept.outcome === 'consumed' &&
    kept.by === 'owner' &&
    settled.outcome === 'indeterminate' &&
    settled.by === 'owner' &&
      settled.owner === kept.owner && settled.attempt === kept.attempt
}

/** P7: the row was lost before its owner got the acknowledgement of its settle. The owner writes it again. */
function isBroughtBack (
  { deleted }: Life,
  kept: Life['settles'][number],
  event: Life['settles'][number] | Life['claims'][number]
): boolean {
  return event.kind === 'settled' && event.by === 'owner' && event.owner === kept.owner && event.attempt === kept.attempt &&
    deleted.some(({ early = false, place }) => early && place > kept.place && place < event.place)
}

function * resolvedStays (life: Life): Generator<Finding> {
  for (const resolved of life.settles.filter(({ by }) => by === 'operator' || by === 'probe')) {
    const next = life.settles.find(({ place }) => place > resolved.place)
    if (next?.by !== 'owner' || isBroughtBack(life, resolved, next)) continue
    const mine = next.owner === resolved.owner && next.attempt === resolved.attempt
    const allowed = resolved.outcome === 'released' && (next.outcome === 'completed' || next.outcome === 'consumed')
    const claimedSince = life.claims.some(({ place }) => place > resolved.place && place < next.place)
    if (!claimedSince && !(mine && allowed)) {
      yield {
        record: life.record,
        detail: `${nameOf(life)}: its owner wrote ${next.outcome} over what the ${resolved.by} had resolved as ${resolved.outcome}`
      }
    }
  }
}

/** An answer that was called stored is in the row until its retention is over. */
function * keptToTheEnd ({ history, answers, lives }: View, life: Life): Generator<Finding> {
  const told = answers.find((answer) => answer.life === life && isStored(answer))
  const latest = lives.findLast(({ record }) => record === life.record)
  if (history.rows === null || told === undefined || latest !== life || life.deleted.length > 0) return
  const settledAtMs = life.settles.findLast(({ outcome }) => outcome === 'completed')?.atMs ?? life.sendings[0]?.atMs ?? told.atMs
  const keepMs = life.settles.at(-1)?.keepMs ?? history.rulesOf(life.record).retentionMs
  if (history.endedAtMs >= settledAtMs + keepMs) return
  const row = history.rows.find(({ record }) => record === life.record)
  if (row?.state !== 'completed' || row.print !== told.print) {
    yield { record: life.record, detail: `${nameOf(life)}: call ${told.call} was told a stored answer, and at the end the row is ${row?.state ?? 'gone'}${row?.state === 'completed' ? ' with another one' : ''}` }
  }
}

function * nothingStaysClaimed ({ history }: View): Generator<Finding> {
  for (const { record, state } of history.rows ?? []) {
    if (state === 'claimed') yield { record, detail: `record ${record.slice(0, 8)} is still claimed` }
  }
}

function * releasedMeansUnsent (view: View): Generator<Finding> {
  for (const life of view.lives) {
    for (const released of life.settles.filter(({ outcome, by }) => outcome === 'released' && by === 'owner')) {
      const sent = life.sendings.find(({ attempt }) => attempt === released.attempt)
      const reply = sent === undefined ? undefined : view.replies.get(sent.execution)
      if (sent === undefined || (reply?.means === 'release' && reply.place < released.place)) continue
      yield { record: life.record, detail: `${nameOf(life)}: attempt ${released.attempt} was released, and it was sent (execution ${sent.execution}${reply === undefined ? '' : `, answered: ${reply.means}`})` }
    }
  }
}

// ---------------------------------------------------------------- I8, I11: what was said

function * everybodyIsAnswered (view: View): Generator<Finding> {
  const { events, rulesOf } = view.history
  const endings = Map.groupBy(events.filter((event) => event.kind === 'told' || event.kind === 'cut'), ({ call }) => call)
  for (const event of events.filter((event) => event.kind === 'asked')) {
    const { call, record } = event
    const ends = endings.get(call) ?? []
    if (ends.length !== 1) yield { record, detail: `call ${call} was answered ${ends.length} times` }
    const [end] = ends
    const tookMs = end?.kind === 'told' ? end.atMs - event.atMs : 0
    if (tookMs > rulesOf(record).answerMs) yield { record, detail: `call ${call} waited ${tookMs} ms` }
  }
  const calls = new Map(Array.from(view.sendings.values(), (sent) => [sent.call, sent]))
  for (const { kind, call, request } of view.answers) {
    const sent = calls.get(call)
    if (kind === 'unsent' && sent !== undefined) {
      yield { record: request.record, detail: `call ${call} was told that nothing was sent, and it was (execution ${sent.execution})` }
    }
  }
}

function * storedMeansStored (view: View): Generator<Finding> {
  for (const answer of view.answers) {
    const outcome = isStored(answer) ? 'completed' : answer.kind === 'tombstone' ? 'consumed' : null
    if (!view.watched || outcome === null) continue
    const settles = isStored(answer) ? answer.life?.settles ?? [] : answer.lives.flatMap((life) => life.settles)
    const written = settles.some((settled) =>
      settled.outcome === outcome && settled.place < answer.place && (outcome === 'consumed' || settled.print === answer.print))
    if (!written) {
      yield {
        record: answer.request.record,
        call: answer.call,
        detail: `call ${answer.call} was told ${answer.kind}, and no such answer had been written`
      }
    }
  }
}
