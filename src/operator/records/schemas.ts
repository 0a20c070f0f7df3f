/** The shapes of records in the operator API. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { DOES } from '../explain/answer.ts'
import {
  Attempt,
  closed,
  HeaderField,
  Id,
  Nullable,
  Owner,
  PageMembers,
  PageQuery,
  Reason,
  RecordStateName,
  Time,
  TimeQuery
} from '../shared/schema-words.ts'

export const STAGES = ['during', 'hop', 'lease', 'settle', 'drain', 'restore'] as const

export const RecordFilterQuery = Type.Object({
  state: Type.Optional(RecordStateName),
  route: Type.Optional(Type.String({ maxLength: 1024 })),
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 4096, description: 'The idempotency key. It is hashed here.' })),
  id: Type.Optional(Id),
  requestId: Type.Optional(Type.String({ maxLength: 512, description: '`X-Request-Id` of the request that claimed the record.' })),
  path: Type.Optional(Type.String({ maxLength: 512, description: 'The path without its query, or its beginning and `*`.' })),
  stage: Type.Optional(Type.Enum([...STAGES], { description: 'Of an unknown outcome: what failed.' })),
  ...TimeQuery
}, closed)

export const RecordQuery = Type.Object({ ...RecordFilterQuery.properties, ...PageQuery }, closed)

const Summary = {
  id: Id,
  state: Type.Union([RecordStateName, Type.Literal('undecodable')]),
  owner: Owner,
  attempt: Attempt,
  route: Type.String(),
  method: Type.String(),
  path: Type.String(),
  requestId: Type.String(),
  traceId: Nullable(Type.String({ description: 'The trace of the request that executed, if it was recorded (docs/guides/traces.md).' })),
  instance: Type.String({ description: 'The gateway process that claimed it.' }),
  key: Nullable(Type.String({ description: 'Only if the route keeps keys as text (`key.store`).' })),
  keyHash: Type.String(),
  fingerprint: Type.Object({ alg: Type.Integer(), value: Type.String() }, closed),
  claimedAt: Time,
  leaseLeftMs: Nullable(Type.Number({ description: 'Milliseconds until its lease is over. Negative: it is over.' })),
  settledAt: Nullable(Time),
  settledBy: Nullable(Type.Enum(['owner', 'lease', 'probe', 'operator'])),
  expiresAt: Nullable(Time),
  status: Nullable(Type.Integer({ description: 'Of the stored answer.' })),
  bodyBytes: Nullable(Type.Integer()),
  reason: Nullable(Type.Object({ stage: Type.String(), code: Type.String() }, { ...closed, description: 'Why its outcome is unknown.' })),
  asking: Nullable(Type.Object({
    tries: Type.Integer(),
    againAt: Nullable(Time),
    absentSince: Nullable(Time)
  }, { ...closed, description: 'How far the probes of the upstream are. null: it is not asked.' }))
}

export const RecordSummaryView = Type.Object(Summary, closed)

export const RecordsPage = Type.Object({ records: Type.Array(RecordSummaryView), ...PageMembers }, closed)

const Moment = Type.Object({
  what: Type.Enum(['claimed', 'sent', 'answered', 'settled', 'changed', 'expires', 'lease-over', 'releasable']),
  at: Time,
  sinceClaimMs: Type.Number(),
  by: Nullable(Type.String({
    description: 'The gateway that claimed it, `owner`, `lease` or `probe` for whoever settled it, or the name of the operator who did.'
  })),
  text: Type.String()
}, closed)

export const RetryView = Type.Object({
  does: Type.Enum([...DOES]),
  status: Nullable(Type.Integer()),
  code: Nullable(Type.String({ description: 'Of the problem that it would get.' })),
  sentences: Type.Array(Type.String())
}, { ...closed, description: 'What a retry with the same request would be told now, and why.' })

export const RecordView = Type.Object({
  ...Summary,
  retry: RetryView,
  history: Type.Array(Moment, { description: 'What happened, and what is to come, in order.' }),
  leaseMs: Type.Number({ description: 'The lease with which it was claimed.' }),
  releasableAt: Nullable(Time),
  changes: Type.Array(Type.Enum(['resolve', 'release', 'delete', 'probe']), { description: 'What may be done with it now.' })
}, closed)

export const AnswerView = Type.Object({
  status: Type.Integer(),
  headers: Type.Array(HeaderField(), { description: 'Names and values, in order. Credentials are masked.' }),
  body: Type.String(),
  encoding: Type.Enum(['utf-8', 'base64'])
}, closed)

const Token = { owner: Owner, attempt: Attempt, reason: Reason }

/** What the operator says that the upstream answered. */
const Answered = {
  status: Type.Integer({ minimum: 200, maximum: 599, description: 'What the upstream answered.' }),
  headers: Type.Optional(Type.Array(HeaderField(8192), { maxItems: 64 })),
  body: Type.Optional(Type.String({ description: 'In the encoding that `encoding` names.' })),
  encoding: Type.Optional(Type.Enum(['utf-8', 'base64'], { default: 'utf-8' })),
  statusOnly: Type.Optional(Type.Boolean({
    default: false,
    description: 'The answer itself is lost: retries get 409 `answer-not-kept` with this status as `originalStatus`.'
  })),
  unusual: Type.Optional(Type.Boolean({ default: false, description: 'Also an answer that the route would not keep.' })),
  retention: Type.Optional(Type.String({
    maxLength: 32,
    description: 'How long retries get it: 24h, 7d. Default: as the route says, and never shorter than as an unknown outcome.'
  }))
}

export const ResolveBody = Type.Object({ ...Token, ...Answered }, closed)
export const ReleaseBody = Type.Object({ ...Token, retention: Answered.retention }, closed)
export const TokenBody = Type.Object(Token, closed)

export const ChangedRecord = Type.Object({
  done: Type.String({ description: 'What was done, and what follows, in words.' }),
  record: Nullable(RecordView, { description: 'As it is now. null: it is gone, or could not be read again.' })
}, closed)

export type RecordFilterValues = Static<typeof RecordFilterQuery>
export type RecordQueryValues = Static<typeof RecordQuery>
export type RecordSummaryJson = Static<typeof RecordSummaryView>
export type RecordJson = Static<typeof RecordView>
export type RecordsPageJson = Static<typeof RecordsPage>
export type AnswerJson = Static<typeof AnswerView>
export type ResolveValues = Static<typeof ResolveBody>
export type ReleaseValues = Static<typeof ReleaseBody>
export type TokenValues = Static<typeof TokenBody>
export type ChangedRecordJson = Static<typeof ChangedRecord>
