/**
 * The changes of a record by an operator: resolve, release, delete, probe now. Each is a compare-and-set on the owner and the attempt that
 * the operator has seen, and leaves an audit row.
 */
import type { RecordDetail, Row, Token } from '../../core/record/record.ts'
import { parseDuration } from '../../config/read/units.ts'
import type { AuditEntry, OperatorResult } from '../../ports/records.ts'
import type { Identity } from '../../core/operator/roles.ts'
import { guardedRoute, type OperatorContext } from '../shared/operators.ts'
import { badRequest, OperatorProblem, type Outcome, type OperatorProblemCode } from '../shared/problem.ts'
import { shownNow } from '../shared/within.ts'
import { readAnswer, type GivenAnswer } from './answer-check.ts'
import { findRecord } from './search.ts'
import type { ChangedRecordJson, ReleaseValues, ResolveValues, TokenValues } from './schemas.ts'
import { recordJson } from './view.ts'

const RETENTION_DEFAULT_MS = 86_400_000
/** A century: longer than anything is kept, and far from the last time that a database or RFC 3339 can write. */
const RETENTION_MAX_MS = 36_500 * 86_400_000

/** What is done with a record, whatever named it. */
export type RecordChange =
  | { readonly action: 'resolve', readonly answer: GivenAnswer, readonly retention?: string }
  | { readonly action: 'release', readonly retention?: string }
  | { readonly action: 'delete' }
  | { readonly action: 'probe' }

type ChangedRecord = Pick<RecordDetail, 'id' | 'about' | 'leaseMs' | 'keepLeftMs'>

export interface ChangeOrder { readonly change: RecordChange, readonly token: Pick<Token, 'owner' | 'attempt'>, readonly why: string }

export async function resolveRecord (
  context: OperatorContext,
  identity: Identity,
  id: string,
  { owner, attempt, reason, retention, ...answer }: ResolveValues
): Promise<Outcome<ChangedRecordJson>> {
  return changeRecord(context, identity, id, {
    change: { action: 'resolve', answer, ...(retention !== undefined && { retention }) },
    token: tokenOf({ owner, attempt }),
    why: reason
  })
}

export async function releaseRecord (
  context: OperatorContext,
  identity: Identity,
  id: string,
  { owner, attempt, reason, retention }: ReleaseValues
): Promise<Outcome<ChangedRecordJson>> {
  return changeRecord(context, identity, id, {
    change: { action: 'release', ...(retention !== undefined && { retention }) },
    token: tokenOf({ owner, attempt }),
    why: reason
  })
}

export async function deleteRecord (
  context: OperatorContext,
  identity: Identity,
  id: string,
  values: TokenValues
): Promise<Outcome<ChangedRecordJson>> {
  return changeRecord(context, identity, id, { change: { action: 'delete' }, token: tokenOf(values), why: values.reason })
}

export async function probeRecord (
  context: OperatorContext,
  identity: Identity,
  id: string,
  values: TokenValues
): Promise<Outcome<ChangedRecordJson>> {
  return changeRecord(context, identity, id, { change: { action: 'probe' }, token: tokenOf(values), why: values.reason })
}

function tokenOf ({ owner, attempt }: Pick<TokenValues, 'owner' | 'attempt'>): ChangeOrder['token'] {
  return { owner: Buffer.from(owner, 'hex'), attempt }
}

async function changeRecord (
  context: OperatorContext,
  identity: Identity,
  id: string,
  order: ChangeOrder
): Promise<Outcome<ChangedRecordJson>> {
  const before = await findRecord(context, id)
  if (before instanceof OperatorProblem) return before
  const done = await applyChange(context, identity, before, order)
  if (done instanceof OperatorProblem) return done
  const record = await shownNow(async () => {
    const now = await findRecord(context, id)
    return now instanceof OperatorProblem ? null : recordJson(now, await context.stores.operator.nowMs(), context)
  })
  return { done, record }
}

/** What was done, in words. @throws as the store does */
export async function applyChange (
  context: OperatorContext,
  { name, via }: Identity,
  record: ChangedRecord,
  { change, token: { owner, attempt }, why }: ChangeOrder
): Promise<Outcome<string>> {
  const token = { id: record.id, owner, attempt }
  const named = { token, action: change.action }
  const audit: AuditEntry = { action: change.action, who: name, via, why }
  const { records, operator } = context.stores
  switch (change.action) {
    case 'resolve': return resolve(context, record, token, change, audit)
    case 'release': {
      const keepMs = keepMsOf(context, record, change.retention)
      if (keepMs instanceof OperatorProblem) return keepMs
      const resolution = {
        token,
        outcome: 'released',
        keepMs,
        status: null,
        headers: null,
        body: null,
        by: 'operator',
        tries: null,
        audit
      } as const
      return wordsOf(
        await records.resolve(resolution),
        named,
        'Released: the next request with this key runs again.',
        () => { context.stores.locks.wake(record.id) }
      )
    }
    case 'delete': {
      const result = await records.expire(token, audit)
      return wordsOf(result, named, `Deleted: the record ends ${context.stores.aheadMs > 0
        ? 'when the clock of the store is trusted again (onceway clock)'
        : `in ${2 * record.leaseMs} ms at the latest`}.`, () => { context.deleted(record.id, record.leaseMs) })
    }
    case 'probe': {
      const result = await operator.askNow(token, audit)
      return unasked(result, token) ??
        wordsOf(result, named, 'The upstream is asked now. If it says what became of the request, the record is settled by that.')
    }
  }
}

/** Why a record that has not changed since is not asked about. null: it is, or has changed. */
function unasked (result: OperatorResult, token: Token): OperatorProblem | null {
  const row = result.kind === 'refused' ? result.row : null
  if (row === null || row.attempt !== token.attempt || !row.owner.equals(token.owner)) return null
  return new OperatorProblem('refused', row.state === 'indeterminate'
    ? 'The gateway has no question for it: its route had no probe (idempotency.unknown: probe) when it was sent.'
    : 'Only about an unknown outcome the upstream can be asked.', nowOf(row))
}

const nowOf = (row: Row) => ({ now: { state: row.state, owner: row.owner.toString('hex'), attempt: row.attempt } })

async function resolve (
  context: OperatorContext,
  record: ChangedRecord,
  token: Token,
  { answer, retention }: Extract<RecordChange, { action: 'resolve' }>,
  audit: AuditEntry
): Promise<Outcome<string>> {
  const read = readAnswer(answer, guardedRoute(context, record.about.route))
  if (read instanceof OperatorProblem) return read
  const keepMs = keepMsOf(context, record, retention)
  if (keepMs instanceof OperatorProblem) return keepMs
  const result = await context.stores.records.resolve({ token, ...read, keepMs, by: 'operator', tries: null, audit })
  const gets = read.outcome === 'consumed' ? '`answer-not-kept`' : 'this answer'
  const done = `Resolved: retries get ${gets}, status ${answer.status}.`
  return wordsOf(result, { token, action: 'resolve' }, done, () => { context.stores.locks.wake(record.id) })
}

/**
 * Without a word on it, a record is kept as long as the route says, and never shorter than as an unknown outcome: a client that retries
 * late must not be sent. Copies outside the store end one lease before their row. A shorter retention would end before them (P10).
 */
export function keepMsOf (
  context: Pick<OperatorContext, 'config'>,
  { about, leaseMs, keepLeftMs }: Pick<ChangedRecord, 'leaseMs' | 'keepLeftMs'> & { readonly about: { readonly route: string } },
  text: string | undefined
): Outcome<number> {
  if (text === undefined || text === '') {
    const routeMs = guardedRoute(context, about.route)?.idempotency.retentionMs ?? RETENTION_DEFAULT_MS
    return Math.round(Math.max(routeMs, keepLeftMs ?? 0))
  }
  const ms = parseDuration(text)
  if (ms === null || ms === 0) return badRequest('A retention is a duration: 24h, 7d.')
  if (ms > RETENTION_MAX_MS) return badRequest('The retention must be at most 36500d.')
  return ms < 2 * leaseMs ? badRequest(`The retention must be at least two leases of the record (${2 * leaseMs}ms).`) : ms
}

function wordsOf (
  result: OperatorResult,
  { token, action }: { readonly token: Token, readonly action: RecordChange['action'] },
  done: string,
  then: () => void = () => {}
): Outcome<string> {
  if (result.kind === 'refused') return refusal(result, token, action)
  then()
  return done
}

/** Why a record in this state cannot be changed, and what to do. */
const REFUSALS: Readonly<Record<Row['state'], string>> = {
  claimed: 'Its request is in flight: wait until it has settled.',
  indeterminate: 'Its outcome is unknown: resolve or release it first, then delete it.',
  completed: 'Its outcome is known: only an indeterminate record can be resolved or released.',
  consumed: 'Its outcome is known: only an indeterminate record can be resolved or released.',
  released: 'It is released already: only an indeterminate record can be resolved or released.',
  undecodable: 'This build cannot read it: use the release that wrote it.'
}

function refusal (
  { row, quarantineLeftMs }: Extract<OperatorResult, { kind: 'refused' }>,
  token: Token,
  action: RecordChange['action']
): OperatorProblem {
  if (row === null) return new OperatorProblem('not-found', 'There is no such record any more.')
  const now = nowOf(row)
  const refused = (
    code: OperatorProblemCode,
    detail: string,
    more = {}
  ): OperatorProblem => new OperatorProblem(code, detail, { ...now, ...more })
  if (row.attempt !== token.attempt || !row.owner.equals(token.owner)) {
    return refused(
      'changed',
      'It has changed since it was shown, and nothing was changed now. Look at it again.'
    )
  }
  if (action === 'release' && quarantineLeftMs !== null && quarantineLeftMs > 0) {
    const seconds = Math.ceil(quarantineLeftMs / MS_PER_SECOND)
    return refused(
      'too-early',
      `The first sending may still be on its way; it can be released in ${seconds} s.`,
      { releasableInMs: Math.round(quarantineLeftMs) }
    )
  }
  return refused('refused', REFUSALS[row.state])
}

const MS_PER_SECOND = 1_000
