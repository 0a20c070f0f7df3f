/** Building blocks of the shapes that the operator API reads and writes. */
import { Type } from 'typebox'
import type { TSchema } from 'typebox'
import { RECORD_STATES } from '../../core/record/record.ts'
import { MESSAGE_STATES } from '../../core/inbox/message.ts'

export const closed = { additionalProperties: false } as const

/** 43 characters of base64url, as `Onceway-Key` shows it, or 64 of hex. */
export const ID_PATTERN = '^(?:[A-Za-z0-9_-]{43}|[0-9a-fA-F]{64})$'
export const OWNER_PATTERN = '^[0-9a-fA-F]{32}$'
/** What the audit keeps of a reason. */
export const REASON_CHARS_MAX = 512

export const Id = Type.String({ pattern: ID_PATTERN, description: 'Id of a record or message: base64url, as in `Onceway-Key`, or hex.' })
export const Time = Type.String({ format: 'date-time', description: 'RFC 3339, by the clock of the store.' })
/** Something to read, and no NUL, which not every store keeps. */
const REASON_PATTERN = '^[^\\u0000]*[^\\s\\u0000][^\\u0000]*$'
export const Reason = Type.String({
  minLength: 1, maxLength: REASON_CHARS_MAX, pattern: REASON_PATTERN, description: 'Why. For the audit.'
})
const ATTEMPT_MAX = 2_147_483_647
export const Attempt = Type.Integer({ minimum: 1, maximum: ATTEMPT_MAX })
/** 0: no delivery has begun yet. */
export const DeliveryAttempt = Type.Integer({ minimum: 0, maximum: ATTEMPT_MAX })
export const Owner = Type.String({ pattern: OWNER_PATTERN, description: 'Fencing token of the claim, in hex.' })
export const RecordStateName = Type.Enum([...RECORD_STATES])
export const MessageStateName = Type.Enum([...MESSAGE_STATES])

export function Nullable<Schema extends TSchema> (schema: Schema, options: { readonly description?: string } = {}) {
  return Type.Union([schema, Type.Null()], options)
}

/** A header field: name and value. A tuple, in the words that both JSON Schema drafts have. */
export function HeaderField (maxLength?: number) {
  return Type.Unsafe<[string, string]>(Type.Array(Type.String(maxLength === undefined ? {} : { maxLength }), { minItems: 2, maxItems: 2 }))
}

/** Rows of a page, if nothing says how many. */
export const PAGE_DEFAULT = 50
/** A larger page is an export, which goes page by page too. */
export const PAGE_MAX = 500

export const PageQuery = {
  order: Type.Optional(Type.Enum(['newest', 'oldest'], { default: 'newest' })),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: PAGE_MAX, default: PAGE_DEFAULT, description: 'Rows of the page, at most.' })),
  cursor: Type.Optional(Type.String({ maxLength: 512, description: '`next` of the page before.' }))
}

export const TimeQuery = {
  from: Type.Optional(Type.String({
    maxLength: 64, description: 'At this time or later: RFC 3339 with a zone, or how long ago (`15m`, `24h`).'
  })),
  to: Type.Optional(Type.String({ maxLength: 64, description: 'Before this time: RFC 3339 with a zone, or how long ago.' }))
}

export const PageMembers = {
  next: Nullable(Type.String({ description: 'Cursor of the next page. null: nothing more matches.' })),
  whole: Type.Boolean({ description: 'false: the time limit was over before the page was full. `next` goes on from there.' }),
  notes: Type.Array(Type.String(), { description: 'What was not searched, and why.' })
}
