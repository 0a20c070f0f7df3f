/**
 * What must hold for one caller's request whatever its id is. A switch of schemes gives it another id, and so do rules that tell callers
 * apart. The invariants of single records are judged elsewhere (harness/checker.ts). Pure.
 */
import type { Rules } from '../../src/core/record/rules.ts'
import { livesOf } from '../harness/history.ts'
import type { EventOf, History, Life } from '../harness/history.ts'
import type { Wrong } from './judge.ts'
import type { Run } from './run.ts'
import type { Schedule } from './schedule.ts'
import { nameOfScheme, rulesOfScheme } from './schemes.ts'
import type { Identity } from './schemes.ts'

type Told = Pick<Run, 'history' | 'accepted' | 'cutOff' | 'identities' | 'clientOf'>

export function identityWrongs (schedule: Schedule, run: Told): Wrong[] {
  const { history, identities, accepted } = run
  const lives = livesOf(history)
  return [
    ...strangers(run),
    ...takenForAnother(schedule, run, lives),
    ...identities.all.filter(({ records }) => new Set(records).size > 1).flatMap((identity) => {
      const own = Array.from(new Set(identity.records))
        .flatMap((record) => lives.get(record) ?? [])
        .sort((one, other) => begunAt(one) - begunAt(other))
      const messages = new Set(identity.records.filter((record) => accepted.has(record)))
      const twice: Wrong[] = messages.size > 1 && !(losesSecret(schedule, history) && differ(history, messages))
        ? [{ rule: 'I13', detail: `"${identity.name}" was accepted under ${messages.size} ids` }]
        : []
      return [...twice, ...livedTwice(schedule, history, identity, own), ...toldThePast(schedule, run, identity, own)]
    })
  ]
}

/** What is written and told is about records that the caller's request has, under one scheme or another. */
function strangers ({ history: { events }, identities, clientOf }: Told): Wrong[] {
  return events.flatMap((event) => {
    if (event.kind === 'claimed' && identities.rulesOf(event.record) === null) {
      return [{ rule: 'I13', detail: `record ${event.record.slice(0, 8)} is nobody's, by what the callers send` }]
    }
    if (event.kind !== 'asked') return []
    const { name, records } = identities.of(clientOf(event.call))
    return records.includes(event.record)
      ? []
      : [{
          rule: 'I13',
          detail: `call ${event.call} was taken for record ${event.record.slice(0, 8)}, which "${name}" has under no scheme`
        }]
  })
}

/** I5: two whom the rules in force tell apart when the record's life begins hear nothing of each other, whatever the rules were before. */
function takenForAnother (
  { scheme }: Schedule,
  { history: { events }, identities, clientOf }: Told,
  lives: ReadonlyMap<string, readonly Life[]>
): Wrong[] {
  const sendings = new Map(events.filter((event): event is EventOf<'sent'> => event.kind === 'sent').map((sent) => [sent.execution, sent]))
  return events.flatMap((event) => {
    const sent = event.kind === 'told' && event.told.execution !== null ? sendings.get(event.told.execution) : undefined
    if (event.kind !== 'told' || sent === undefined || sent.call === event.call) return []
    const [mine, theirs] = [event, sent].map(({ call }) => identities.callerOf(clientOf(call)))
    if (mine === theirs) return []
    const life = lives.get(sent.record)?.find(({ sendings: own }) => own.some(({ execution }) => execution === sent.execution))
    const rules = life === undefined ? null : rulesAt(events, begunAt(life), rulesOfScheme(scheme))
    return rules === 1
      ? []
      : [{
          rule: 'I5',
          detail: `call ${event.call} of "${mine}" was told an answer of "${theirs}", whom the rules told apart when the record began`
        }]
  })
}

function rulesAt (events: History['events'], place: number, first: Rules): Rules {
  const before = events.slice(0, place).findLast((event) => event.kind === 'switched')
  return before?.kind === 'switched' ? (before.to === nameOfScheme('1') ? 1 : 2) : first
}

/** I13: while what stands under one id of a request lives, nothing is claimed under another one. */
function livedTwice (schedule: Schedule, history: History, { name }: Identity, lives: readonly Life[]): Wrong[] {
  return lives.flatMap((life, index) => {
    const [begun] = life.claims
    const before = begun === undefined
      ? undefined
      : lives.slice(0, index).find((other) => other.record !== life.record && !isOver(other, begun.place, begun.atMs))
    if (before === undefined) return []
    if (losesSecret(schedule, history) && !isOfSame(before, life)) return []
    return [{
      rule: 'I13',
      detail: `"${name}" was claimed as record ${life.record.slice(0, 8)} while its record ${before.record.slice(0, 8)} lived`
    }]
  })
}

/** What is left of a lost secret is found by what was asked, and by nothing else. */
function losesSecret ({ faults }: Schedule, { events }: History): boolean {
  return faults.some(({ action }) => action.kind === 'switch' && action.isLost) && events.some(({ kind }) => kind === 'switched')
}

function isOfSame (one: Life, other: Life): boolean {
  return one.sendings.some(({ asked }) => other.sendings.some((sent) => sent.asked === asked))
}

/** Each message is of another request. */
function differ ({ events }: History, messages: ReadonlySet<string>): boolean {
  const accepted = new Set(events.flatMap((event) => event.kind === 'told' && event.told.kind === 'accepted' ? [event.call] : []))
  const asked = events.flatMap((event) =>
    event.kind === 'asked' && accepted.has(event.call) && messages.has(event.record) ? [{ record: event.record, asked: event.asked }] : [])
  return asked.every((one) => asked.every((other) => one.record === other.record || one.asked !== other.asked))
}

/** P10, of all its ids. */
function toldThePast (
  schedule: Schedule,
  { history, cutOff, identities, clientOf }: Told,
  { name }: Identity,
  lives: readonly Life[]
): Wrong[] {
  const { events } = history
  const asked = new Map<string, number>()
  events.forEach((event, place) => {
    if (event.kind === 'asked' && identities.of(clientOf(event.call)).name === name) asked.set(event.call, place)
  })
  return events.flatMap((event) => {
    const place = event.kind === 'told' ? asked.get(event.call) : undefined
    if (event.kind !== 'told' || place === undefined || !['stored', 'replayed'].includes(event.told.kind) || cutOff.has(event.call)) {
      return []
    }
    const own = lives.findIndex(({ sendings }) => sendings.some(({ execution }) => execution === event.told.execution))
    const later = own === -1
      ? undefined
      : lives.slice(own + 1).find((life) =>
        life.record !== lives[own]?.record &&
        begunAt(life) < place &&
        !(losesSecret(schedule, history) && !isOfSame(lives[own] as Life, life)))
    return later === undefined
      ? []
      : [{ rule: 'P10', detail: `call ${event.call} asked after a new life had begun under another id, and was told execution ${event.told.execution} of the one before` }]
  })
}

function begunAt ({ claims, sendings, settles }: Life): number {
  return Math.min(...[...claims, ...sendings, ...settles].map(({ place }) => place))
}

function isOver ({ claims, settles, deleted }: Life, place: number, atMs: number): boolean {
  const last = settles.findLast((settled) => settled.place < place)
  if (last === undefined || claims.some((claim) => claim.place > last.place && claim.place < place)) return false
  // What an operator's word has ended early may be brought back by its owner (P7), behind the back of whoever has claimed since.
  return atMs >= last.atMs + last.keepMs || deleted.some((each) => each.place < place && (each.early === true || each.place > last.place))
}
