/**
 * One request that holds several events, taken apart: every item as its bytes stand there, in a body of its own that looks
 * as if the sender had sent it alone. By media type and shape, the first that fits:
 *
 * - `application/cloudevents-batch+json`: each item as `application/cloudevents+json`. Always; one item is taken out too.
 * - an array that Event Grid delivers (`aeg-event-type: Notification`), whatever its media type: each item as an array of one. One
 *   alone: as it came.
 * - an object whose one member is `Records`, an array (SQS, SNS, S3, Kinesis), whatever its media type (SNS says text/plain): each
 *   item as `{"Records":[item]}`. One alone: as it came.
 * - any other array under a JSON media type: each item, which then is the body. Always.
 *
 * Everything else is one event. What is a batch by its shape and cannot be taken apart is refused: one identity for several
 * events would lose some of them.
 */
import { DEPTH_MAX, JsonCursor, NoJson, TooDeep } from '../json/cursor.ts'
import { POINTED_BYTES_MAX } from '../json/pointer.ts'
import { headerLines, headerValue, pairs } from '../headers/lines.ts'
import type { RawHeaders } from '../record/record.ts'

export type BatchFormat = 'cloudevents' | 'eventgrid' | 'records' | 'array'

export interface BatchItem { readonly body: Buffer, readonly contentType: string | null }

export type Batch =
  | { readonly kind: 'single' }
  | { readonly kind: 'batch', readonly format: BatchFormat, readonly items: readonly BatchItem[] }
  /** `detail`: one sentence for the sender. */
  | { readonly kind: 'bad', readonly format: BatchFormat, readonly detail: string }

/** All are accepted in one transaction. Beyond what any of these senders puts into one request. */
export const BATCH_ITEMS_MAX = 1_000
/** What is larger has no values that a key could be made of. */
export const BATCH_BYTES_MAX = POINTED_BYTES_MAX

export function splitBatch (rawHeaders: RawHeaders, body: Buffer): Batch {
  const format = formatOf(rawHeaders, body)
  if (format === null) return SINGLE
  if (body.length > BATCH_BYTES_MAX) return bad(format, `The batch is larger than ${BATCH_BYTES_MAX} bytes. Send smaller ones.`)
  const contentType = itemsType(rawHeaders)
  const read = format === 'cloudevents' && !EVENT_TYPE.test(contentType ?? '') ? null : readItems(body, format)
  if (read === 'too-deep') {
    return format === 'records' && !beginsAsRecords(body)
      ? SINGLE
      : bad(format, `The batch is nested deeper than ${DEPTH_MAX} levels. Send its events one by one.`)
  }
  const detail = read === null
    ? (format === 'cloudevents' ? 'The batch of CloudEvents is no JSON array under application/cloudevents-batch+json.' : null)
    : refusalOf(read, format)
  if (detail !== null) return bad(format, detail)
  if (read === null || read.items.length === 0 || (read.items.length === 1 && ALONE_AS_IT_CAME.has(format))) return SINGLE
  return { kind: 'batch', format, items: read.items.map((item) => ({ body: bodyOf(item, format), contentType })) }
}

const ALONE_AS_IT_CAME: ReadonlySet<BatchFormat> = new Set(['eventgrid', 'records'])

function refusalOf ({ items, count, others, twice }: Items, format: BatchFormat): string | null {
  if (count === 0 && format === 'cloudevents') return 'The batch is empty.'
  // Readers differ in which of them they take.
  if (twice) return 'The batch has its Records twice.'
  if (count > BATCH_ITEMS_MAX) return `The batch has more than ${BATCH_ITEMS_MAX} items. Send smaller ones.`
  if (count <= 1 && ALONE_AS_IT_CAME.has(format)) return null
  if (others) return 'The batch has something beside its Records, which belongs to no one of them.'
  const wrong = items.findIndex((item) => !item.startsWith('{'))
  return wrong === -1 ? null : `Item ${wrong} of the batch is no object.`
}

/** Of every item of a batch; null: the request has none. */
export function itemsType (rawHeaders: RawHeaders): string | null {
  return headerValue(rawHeaders, 'content-type')?.replace(BATCH_TYPE, EVENT) ?? null
}

/** By the beginning, without case, as the HTTP binding says. */
const BATCH_TYPE = /^\s*application\/cloudevents-batch\+json/i
const EVENT = 'application/cloudevents+json'
const EVENT_TYPE = /^application\/cloudevents\+json[ \t]*(?:;|$)/

/** null: nothing that is looked into. */
function formatOf (rawHeaders: RawHeaders, body: Buffer): BatchFormat | null {
  const type = headerValue(rawHeaders, 'content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (type.startsWith('application/cloudevents-batch')) return 'cloudevents'
  switch (body[firstOf(body)]) {
    case OPENS_ARRAY: return arrayFormat(rawHeaders, type)
    // Keys are looked for in it whatever its media type, and so are its events.
    case OPENS_OBJECT: return mayBeRecords(body) ? 'records' : null
    default: return null
  }
}

/**
 * Event Grid says of every delivery what it is, and its key is looked for whatever the media type. What else it sends
 * is no notification: nothing of it is an event.
 */
function arrayFormat (rawHeaders: RawHeaders, type: string): BatchFormat | null {
  const [event, ...others] = headerLines(rawHeaders, 'aeg-event-type')
  if (others.length === 0 && event?.trim().toLowerCase() === 'notification') return 'eventgrid'
  const isJson = type === 'application/json' || type === 'text/json' || type.endsWith('+json')
  return isJson && event === undefined ? 'array' : null
}

/** What is too large to be read is a batch if it begins as one. */
function mayBeRecords (body: Buffer): boolean {
  return body.length > BATCH_BYTES_MAX ? beginsAsRecords(body) : body.includes('"Records"') || body.includes(ESCAPED_LETTER)
}

function beginsAsRecords (body: Buffer): boolean {
  const first = firstOf(body)
  return RECORDS.test(body.toString('latin1', first, first + START_BYTES))
}

/** Where a JSON text begins. No byte order mark does: no value is looked for in what stands behind one. */
function firstOf (body: Buffer): number {
  let at = 0
  while (at < BATCH_BYTES_MAX && BLANK.has(body[at])) at++
  return at
}

const BLANK: ReadonlySet<number | undefined> = new Set(Buffer.from(' \t\n\r'))
const [OPENS_ARRAY, OPENS_OBJECT] = Buffer.from('[{')
/** Any of those in `Records` may be written so. */
const ESCAPED_LETTER = '\\u00'
/** Enough for the space that somebody may have put between the first bracket and the second. */
const START_BYTES = 1_024
const RECORDS = /^\{[ \t\n\r]*"Records"[ \t\n\r]*:[ \t\n\r]*\[/

/** The item's own bytes: the text was UTF-8, so it is again. */
function bodyOf (item: string, format: BatchFormat): Buffer {
  switch (format) {
    case 'eventgrid': return Buffer.from(`[${item}]`)
    case 'records': return Buffer.from(`{"Records":[${item}]}`)
    case 'cloudevents':
    case 'array': return Buffer.from(item)
  }
}

interface Items {
  /** The items' own text; none beyond {@link BATCH_ITEMS_MAX}. */
  readonly items: string[]
  count: number
  /** Something stands beside `Records`; or another `Records`. */
  others: boolean
  twice: boolean
}

/** null: no JSON, or no such batch. */
function readItems (body: Buffer, format: BatchFormat): Items | 'too-deep' | null {
  const read: Items = { items: [], count: 0, others: false, twice: false }
  let found = 0
  const take = (cursor: JsonCursor): void => {
    found++
    cursor.items(() => {
      const from = cursor.at
      cursor.skip()
      if (++read.count <= BATCH_ITEMS_MAX) read.items.push(cursor.text.slice(from, cursor.at))
    })
  }
  try {
    const cursor = JsonCursor.of(body)
    cursor.document(() => {
      const first = cursor.peek()
      if (format !== 'records' && first === '[') return take(cursor)
      if (format !== 'records' || first !== '{') return cursor.skip()
      cursor.members((name) => {
        if (name === 'Records' && cursor.peek() === '[') return take(cursor)
        read.others = true
        cursor.skip()
      })
    })
  } catch (error) {
    if (error instanceof TooDeep) return 'too-deep'
    if (error instanceof NoJson) return null
    throw error
  }
  read.twice = found > 1
  return found === 0 ? null : read
}

const SINGLE: Batch = { kind: 'single' }

function bad (format: BatchFormat, detail: string): Batch {
  return { kind: 'bad', format, detail }
}

/** True of the whole body, and of none of its items. */
const OF_THE_WHOLE: ReadonlySet<string> = new Set(['content-digest', 'repr-digest', 'digest', 'content-md5'])

/** Of one item of a batch: the batch's, with the media type of the item. */
export function itemHeaders (rawHeaders: RawHeaders, contentType: string | null): RawHeaders {
  return [...pairs(rawHeaders)].flatMap(([name, value]) => {
    const lower = name.toLowerCase()
    if (OF_THE_WHOLE.has(lower)) return []
    return [name, lower === 'content-type' ? contentType ?? value : value]
  })
}
