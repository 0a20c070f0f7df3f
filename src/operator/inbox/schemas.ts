/** The shapes of messages in the operator API. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { DELIVERIES_MAX, REPLY_BYTES_MAX } from '../../core/inbox/message.ts'
import type { StepView } from '../records/bulk.ts'
import {
  closed,
  DeliveryAttempt,
  HeaderField,
  Id,
  MessageStateName,
  Nullable,
  PageMembers,
  PageQuery,
  Reason,
  Time,
  TimeQuery
} from '../shared/schema-words.ts'

export const MessageFilterQuery = Type.Object({
  state: Type.Optional(MessageStateName),
  route: Type.Optional(Type.String({ maxLength: 1024 })),
  key: Type.Optional(Type.String({ minLength: 1, maxLength: 4096, description: 'The idempotency key. It is hashed here.' })),
  group: Type.Optional(Type.String({
    minLength: 1,
    maxLength: 255,
    description: 'The value that `inbox.order` names. It needs `route`.'
  })),
  id: Type.Optional(Id),
  requestId: Type.Optional(Type.String({ maxLength: 512, description: '`X-Request-Id` of the request that was accepted.' })),
  path: Type.Optional(Type.String({ maxLength: 512, description: 'The path without its query, or its beginning and `*`.' })),
  ...TimeQuery
}, closed)

export const MessageQuery = Type.Object({ ...MessageFilterQuery.properties, ...PageQuery }, closed)

export const MessageView = Type.Object({
  id: Id,
  state: MessageStateName,
  error: Nullable(Type.String({ description: 'Code of the last delivery that failed.' })),
  lastStatus: Nullable(Type.Integer()),
  attempt: Type.Integer({ description: 'Number of the last delivery. It never decreases.' }),
  tries: Type.Integer({ description: 'Deliveries since it was accepted, or retried or replayed by an operator.' }),
  route: Type.String(),
  method: Type.String(),
  path: Type.String(),
  requestBytes: Type.Integer(),
  requestId: Type.String(),
  instance: Type.String(),
  key: Nullable(Type.String()),
  keyHash: Type.String(),
  fingerprint: Type.Object({ alg: Type.Integer(), value: Type.String() }, closed),
  ordered: Type.Boolean(),
  receivedAt: Time,
  dueAt: Nullable(Time),
  settledAt: Nullable(Time),
  expiresAt: Nullable(Time),
  requestKeptUntil: Nullable(Type.String({
    format: 'date-time',
    description: 'Of a delivered message: it can be replayed until then. null: its request is deleted.'
  })),
  replayedAt: Nullable(Type.String({ format: 'date-time', description: 'When it was last replayed. null: never.' })),
  answer: Nullable(Type.Object({
    status: Type.Integer(),
    headers: Nullable(Type.Array(HeaderField(), { description: 'null: to see them needs the role reader.' })),
    bodyBytes: Type.Integer()
  }, { ...closed, description: 'What the consumer last answered. Credentials are masked.' }))
}, closed)

export const PastDeliveryView = Type.Object({
  attempt: Type.Integer(),
  at: Type.String({ format: 'date-time', description: 'When it ended, by the clock of the store.' }),
  ms: Nullable(Type.Integer({ description: 'How long it took. null: it was not sent, or nobody knows.' })),
  status: Nullable(Type.Integer({ description: 'What the consumer answered. null: there was no answer.' })),
  error: Nullable(Type.String({ description: 'null: the consumer took the message.' })),
  contentType: Nullable(Type.String()),
  body: Nullable(Type.String({
    description: `The first ${REPLY_BYTES_MAX} bytes of the answer. Empty: it had no body, or the body is not kept. null: there was no ` +
      'answer, or to see it needs the role reader.'
  })),
  encoding: Type.Enum(['utf-8', 'base64']),
  truncated: Type.Boolean({ description: 'The body goes on behind these bytes.' })
}, closed)

export const MessageDetailView = Type.Object({
  ...MessageView.properties,
  deliveries: Type.Array(PastDeliveryView, {
    description: `Those that have ended, in their order, at most ${DELIVERIES_MAX}: the first, and the last ones.`
  })
}, closed)

export const MessagesPage = Type.Object({ messages: Type.Array(MessageView), ...PageMembers }, closed)
export const ReasonBody = Type.Object({ reason: Reason }, closed)
export const MessageChangeBody = Type.Object({
  state: MessageStateName,
  attempt: DeliveryAttempt,
  reason: Reason
}, closed)
export const ChangedMessage = Type.Object({ done: Type.String(), message: MessageView }, closed)

export const MessageSelectionView = Type.Object({
  count: Type.Integer(),
  sample: Type.Array(MessageView),
  token: Type.String(),
  expiresAt: Time,
  notes: Type.Array(Type.String())
}, closed)

export const MessageBulkBody = Type.Object({
  token: Type.String({ maxLength: 8192 }),
  action: Type.Enum(['retry', 'discard', 'replay']),
  reason: Reason,
  cursor: Type.Optional(Type.String({ maxLength: 512 }))
}, closed)

export type MessageFilterValues = Static<typeof MessageFilterQuery>
export type MessageQueryValues = Static<typeof MessageQuery>
export type MessageChangeValues = Static<typeof MessageChangeBody>
export type MessageJson = Static<typeof MessageView>
export type PastDeliveryJson = Static<typeof PastDeliveryView>
export type MessageDetailJson = Static<typeof MessageDetailView>
export type MessagesPageJson = Static<typeof MessagesPage>
export type ChangedMessageJson = Static<typeof ChangedMessage>
export type MessageSelectionJson = Static<typeof MessageSelectionView>
export type MessageBulkValues = Static<typeof MessageBulkBody>
export type MessageStepJson = Static<typeof StepView>
