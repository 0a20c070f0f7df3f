/**
 * Splits one request with several events. Every item keeps its bytes, in a body of its own, as if the sender had sent it alone. The first
 * format that fits applies, by media type and shape:
 *
 * - `application/cloudevents-batch+json`: each item as `application/cloudevents+json`. A single item is taken out too.
 * - An array that Event Grid delivers (`aeg-event-type: Notification`), whatever its media type: each item as an array of one. A single
 * item stays as it came.
 * - An object whose one member is `Records`, an array (SQS, SNS, S3, Kinesis), whatever its media type (SNS says text/plain): each item as
 * `{"Records":[item]}`. A single item stays as it came.
 * - Any other array under a JSON media type: each item is the body. A single item is taken out too.
 *
 * Everything else is one event. A body with the shape of a batch that cannot be split is refused: with one identity for several events,
 * some of them would be lost.
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
  /** `detail`: one sentence for the sender. `tooLarge`: its bytes or its items are too many. */
  | { readonly kind: 'bad', readonly format: BatchFormat, readonly detail: string, readonly tooLarge: boolean }

/** All items are accepted in one transaction. The bound is above what any of these senders puts into one request. */
export const BATCH_ITEMS_MAX = 1_000
/** A larger body has no values for a key. */
export const BATCH_BYTES_MAX = POINTED_BYTES_MAX

export function splitBatch (rawHeaders: RawHeaders, body: Buffer): Batch {
  const format = formatOf(rawHeaders, body)
  if (format === null) return SINGLE
  if (body.length > BATCH_BYTES_MAX) return bad(format, `The batch is larger than ${BATCH_BYTES_MAX} bytes. Send smaller ones.`, true)
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
  if (detail !== null) return bad(format, detail, read !== null && read.count > BATCH_ITEMS_MAX)
  if (read === null || read.items.length === 0 || (read.items.length === 1 && ALONE_AS_IT_CAME.has(format))) return SINGLE
  return { kind: 'batch', format, items: read.items.map((item) => ({ body: bodyOf(item, format), contentType })) }
}

const ALONE_AS_IT_CAME: ReadonlySet<BatchFormat> = new Set(['eventgrid', 'records'])

function refusalOf ({ items, count, others, twice }: Items, format: BatchFormat): string | null {
  if (count === 0 && format === 'cloudevents') return 'The batch is empty.'
  // Readers differ in which of the two they take.
  if (twice) return 'The batch has its Records twice.'
  if (count > BATCH_ITEMS_MAX) return `The batch has more than ${BATCH_ITEMS_MAX} items. Send smaller ones.`
  if (count <= 1 && ALONE_AS_IT_CAME.has(format)) return null
  if (others) return 'The batch has something beside its Records, which belongs to no one of them.'
  const wrong = items.findIndex((item) => !item.startsWith('{'))
  return wrong === -1 ? null : `Item ${wrong} of the batch is no object.`
}

/** The media type of every item of a batch. null: the request has none. */
export function itemsType (rawHeaders: RawHeaders): string | null {
  return headerValue(rawHeaders, 'content-type')?.replace(BATCH_TYPE, EVENT) ?? null
}

/** By the beginning, without case, as the HTTP binding says. */
const BATCH_TYPE = /^\s*application\/cloudevents-batch\+json/i
const EVENT = 'application/cloudevents+json'
const EVENT_TYPE = /^application\/cloudevents\+json[ \t]*(?:;|$)/

/** null: the body is not read. */
function formatOf (rawHeaders: RawHeaders, body: Buffer): BatchFormat | null {
  const type = headerValue(rawHeaders, 'content-type')?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (type.startsWith('application/cloudevents-batch')) return 'cloudevents'
  switch (body[firstOf(body)]) {
    case OPENS_ARRAY: return arrayFormat(rawHeaders, type)
    // Keys are searched for whatever the media type, and so are events.
    case OPENS_OBJECT: return mayBeRecords(body) ? 'records' : null
    default: return null
  }
}

/**
 * Event Grid marks every delivery, and its key is searched for whatever the media type. Its other requests are no notifications, and
 * contain no events.
 */
function arrayFormat (rawHeaders: RawHeaders, type: string): BatchFormat | null {
  const [event, ...others] = headerLines(rawHeaders, 'aeg-event-type')
  if (others.length === 0 && event?.trim().toLowerCase() === 'notification') return 'eventgrid'
  const isJson = type === 'application/json' || type === 'text/json' || type.endsWith('+json')
  return isJson && event === undefined ? 'array' : null
}

/** A body that is too large to read is a batch if it begins like one. */
function mayBeRecords (body: Buffer): boolean {
  return body.length > BATCH_BYTES_MAX ? beginsAsRecords(body) : body.includes('"Records"') || body.includes(ESCAPED_LETTER)
}

function beginsAsRecords (body: Buffer): boolean {
  const first = firstOf(body)
  return RECORDS.test(body.toString('latin1', first, first + START_BYTES))
}

/** Where a JSON text begins. A byte order mark is not skipped, because no value is searched for behind one. */
function firstOf (body: Buffer): number {
  let at = 0
  while (at < BATCH_BYTES_MAX && BLANK.has(body[at])) at++
  return at
}

const BLANK: ReadonlySet<number | undefined> = new Set(Buffer.from(' \t\n\r'))
const [OPENS_ARRAY, OPENS_OBJECT] = Buffer.from('[{')
/** An escape that may write any letter of `Records`. */
const ESCAPED_LETTER = '\\u00'
/** Enough for the space between the first bracket and the second. */
const START_BYTES = 1_024
const RECORDS = /^\{[ \t\n\r]*"Records"[ \t\n\r]*:[ \t\n\r]*\[/

/** The item's own bytes. The text was UTF-8, so its bytes are the same again. */
function bodyOf (item: string, format: BatchFormat): Buffer {
  switch (format) {
    case 'eventgrid': return Buffer.from(`[${item}]`)
    case 'records': return Buffer.from(`{"Records":[${item}]}`)
    case 'cloudevents':
    case 'array': return Buffer.from(item)
  }
}

interface Items {
  /** The items' own text, at most {@link BATCH_ITEMS_MAX}. */
  readonly items: string[]
  count: number
  /** Whether there is a member beside `Records`. `twice`: whether `Records` is repeated. */
  others: boolean
  twice: boolean
}

/** null: not JSON, or not such a batch. */
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

function bad (format: BatchFormat, detail: string, tooLarge = false): Batch {
  return { kind: 'bad', format, detail, tooLarge }
}

/** Fields that describe the whole body, and none of its items. */
const OF_THE_WHOLE: ReadonlySet<string> = new Set(['content-digest', 'repr-digest', 'digest', 'content-md5'])

/** The fields of one item: those of the batch, with the item's media type. */
export function itemHeaders (rawHeaders: RawHeaders, contentType: string | null): RawHeaders {
  return [...pairs(rawHeaders)].flatMap(([name, value]) => {
    const lower = name.toLowerCase()
    if (OF_THE_WHOLE.has(lower)) return []
    return [name, lower === 'content-type' ? contentType ?? value : value]
  })
}
