import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { BATCH_BYTES_MAX, BATCH_ITEMS_MAX, splitBatch } from '../../../src/core/inbox/batch.ts'
import type { Batch } from '../../../src/core/inbox/batch.ts'

const JSON_TYPE = ['Content-Type', 'application/json'] as const
const GRID = [...JSON_TYPE, 'aeg-event-type', 'Notification'] as const
const EVENTS = ['Content-Type', 'application/cloudevents-batch+json; charset=UTF-8'] as const

function split (headers: readonly string[], body: string | Buffer): Batch {
  return splitBatch(headers, Buffer.from(body))
}

/** The bodies of the items, or the detail instead. */
function bodiesOf (headers: readonly string[], body: string | Buffer): readonly string[] | string {
  const batch = split(headers, body)
  if (batch.kind === 'batch') return batch.items.map((item) => item.body.toString())
  return batch.kind === 'bad' ? batch.detail : batch.kind
}

/** Written in a way of the sender's own: digits, order, escapes, a repeated member, space inside. */
const ONE = '{ "amount":12.50,\t"id":"a", "big":12345678901234567890, "id":"b","caf\\u00e9":"café" }'
const TWO = '{"id":"c","deep":[[{"x":"]},{"}],"\\"]"]}'

const DEEP = `${'['.repeat(200)}${']'.repeat(200)}`

describe('what is taken apart', () => {
  test('a CloudEvents batch: each event under the media type of one', () => {
    const batch = split(EVENTS, ` [ ${ONE} ,\n${TWO}\t]\r\n`)
    assert.equal(batch.kind, 'batch')
    assert.equal(batch.format, 'cloudevents')
    assert.deepEqual(
      batch.items.map(({ body, contentType }) => [body.toString(), contentType]),
      [ONE, TWO].map((body) => [body, 'application/cloudevents+json; charset=UTF-8'])
    )
    assert.deepEqual(bodiesOf(['content-type', 'Application/CloudEvents-Batch+JSON'], `[${ONE}]`), [ONE])
  })

  test('an Event Grid array: each event as an array of one, as it would come alone', () => {
    assert.deepEqual(bodiesOf(GRID, `[${ONE},${TWO}]`), [`[${ONE}]`, `[${TWO}]`])
    assert.equal(bodiesOf(GRID, `[ ${ONE} ]`), 'single')
  })

  test('an Event Grid array under any media type, or none: its header says what it is', () => {
    for (const type of [['Content-Type', 'text/plain'], ['Content-Type', 'application/octet-stream'], []]) {
      assert.deepEqual(bodiesOf([...type, 'aeg-event-type', 'Notification'], `[${ONE},${TWO}]`), [`[${ONE}]`, `[${TWO}]`])
    }
  })

  test('Records of SQS and its like: each as Records of one', () => {
    for (const body of [`{"Records":[${ONE},${TWO}]}`, ` {\n"Records" : [ ${ONE} , ${TWO} ] } `]) {
      assert.deepEqual(bodiesOf(JSON_TYPE, body), [`{"Records":[${ONE}]}`, `{"Records":[${TWO}]}`])
    }
    assert.equal(bodiesOf(JSON_TYPE, `{"Records":[${ONE}]}`), 'single')
  })

  test('Records under any media type, or none, however they are spelled: SNS and those who post a form say something else than JSON', () => {
    const spelled = [
      `{"Records":[${ONE},${TWO}]}`,
      `\n{"\\u0052ecord\\u0073":[${ONE},${TWO}]}`,
      `${' '.repeat(5_000)}{"Records":[${ONE},${TWO}]}`
    ]
    for (const type of [
      ['Content-Type', 'text/plain; charset=UTF-8'],
      ['Content-Type', 'application/x-www-form-urlencoded'],
      ['Content-Type', 'application/octet-stream'],
      []
    ]) {
      for (const body of spelled) assert.deepEqual(bodiesOf(type, body), [`{"Records":[${ONE}]}`, `{"Records":[${TWO}]}`])
      assert.equal(bodiesOf(type, `{"Records":[${ONE}]}`), 'single')
    }
  })

  test('an array behind any amount of space', () => {
    assert.deepEqual(bodiesOf(GRID, `${' \n'.repeat(5_000)}[${ONE},${TWO}]`), [`[${ONE}]`, `[${TWO}]`])
  })

  test('any other array of objects: each object alone', () => {
    for (const type of ['application/json', 'text/json; charset=utf-8', 'application/vnd.shop+json']) {
      assert.deepEqual(bodiesOf(['Content-Type', type], `[${ONE},${TWO}]`), [ONE, TWO])
    }
    assert.deepEqual(bodiesOf(JSON_TYPE, `[${ONE}]`), [ONE])
  })
})

describe('what is one', () => {
  const WHOLE: ReadonlyArray<readonly [what: string, headers: readonly string[], body: string | Buffer]> = [
    ['an object', JSON_TYPE, ONE],
    ['an object with Records somewhere else', JSON_TYPE, `{"data":{"Records":[${ONE},${TWO}]}}`],
    ['an object whose Records are no array', JSON_TYPE, '{"Records":{"Records":[1]}}'],
    ['an empty array', JSON_TYPE, '[]'],
    ['no Records', JSON_TYPE, '{"Records":[]}'],
    ['one record with something beside it', JSON_TYPE, `{"page":1,"Records":[${ONE}]}`],
    ['a text', ['Content-Type', 'text/plain'], `[${ONE},${TWO}]`],
    ['nothing said of what it is', [], `[${ONE},${TWO}]`],
    ['a control message of Event Grid', [...JSON_TYPE, 'aeg-event-type', 'SubscriptionValidation'], `[${ONE},${TWO}]`],
    ['what is cut off', JSON_TYPE, `[${ONE},`],
    ['what goes on behind its end', JSON_TYPE, `[${ONE}] ${TWO}`],
    ['what is not UTF-8', JSON_TYPE, Buffer.from([0x5b, 0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d, 0x5d])],
    ['an object that is too deep, with Records in it', JSON_TYPE, `{"a":${DEEP},"Records":[${ONE},${TWO}]}`],
    ['Records in a text that is no JSON', ['Content-Type', 'text/plain'], `{"Records":[${ONE},${TWO}]`],
    ['a form with Records in it', ['Content-Type', 'application/x-www-form-urlencoded'], `payload={"Records":[${ONE},${TWO}]}`],
    ['Records behind a byte order mark, where no key is looked for either', JSON_TYPE, `\ufeff{"Records":[${ONE},${TWO}]}`],
    ['a text that is too deep, with Records in it', ['Content-Type', 'text/plain'], `{"a":${DEEP},"Records":[${ONE},${TWO}]}`],
    ['a text that is too deep', ['Content-Type', 'text/plain'], `[${DEEP}]`],
    ['nothing', JSON_TYPE, '']
  ]
  for (const [what, headers, body] of WHOLE) test(what, () => { assert.equal(bodiesOf(headers, body), 'single') })
})

describe('what is refused', () => {
  const many = (count: number): string => `[${Array.from({ length: count }, () => '{}').join()}]`
  const long = `[{"a":"${'x'.repeat(BATCH_BYTES_MAX)}"}]`
  const BAD: ReadonlyArray<readonly [what: string, headers: readonly string[], body: string, said: RegExp]> = [
    ['an item that is no object', JSON_TYPE, `[${ONE},5]`, /^Item 1 of the batch is no object\.$/],
    ['a list of numbers', JSON_TYPE, '[1,2]', /^Item 0 of the batch is no object\.$/],
    ['a record that is no object', JSON_TYPE, `{"Records":[${ONE},null]}`, /^Item 1 of the batch is no object\.$/],
    ['Records with something beside them', JSON_TYPE, `{"Records":[${ONE},${TWO}],"page":1}`, /something beside its Records/],
    [
      'Records with something beside them, in a text',
      ['Content-Type', 'text/plain'],
      `{"Records":[${ONE},${TWO}],"page":1}`,
      /something beside its Records/
    ],
    ['Records twice', JSON_TYPE, `{"Records":[${ONE}],"Records":[${TWO}]}`, /Records twice/],
    ['Records twice, spelled in two ways', JSON_TYPE, `{"Records":[${ONE}],"\\u0052ecords":[${TWO}]}`, /Records twice/],
    ['an empty batch of CloudEvents', EVENTS, '[]', /^The batch is empty\.$/],
    ['a batch of CloudEvents that is none', EVENTS, ONE, /no JSON array/],
    ['a batch of CloudEvents that is cut off', EVENTS, `[${ONE},`, /no JSON array/],
    ['a batch of CloudEvents in another format', ['Content-Type', 'application/cloudevents-batch+avro'], `[${ONE}]`, /no JSON array/],
    ['an array that is too deep', JSON_TYPE, `[${ONE},{"a":${DEEP}}]`, /nested deeper than 128 levels/],
    ['CloudEvents that are too deep', EVENTS, `[${ONE},{"a":${DEEP}}]`, /nested deeper than 128 levels/],
    ['Records that are too deep', JSON_TYPE, `{"Records":[${ONE},{"a":${DEEP}}]}`, /nested deeper than 128 levels/],
    ['too many items', JSON_TYPE, many(BATCH_ITEMS_MAX + 1), /more than 1000 items/],
    ['too many bytes of an array', JSON_TYPE, long, /larger than 1048576 bytes/],
    ['too many bytes of CloudEvents', EVENTS, long, /larger than 1048576 bytes/],
    ['too many bytes of Records', JSON_TYPE, `{ "Records": ${long}}`, /larger than 1048576 bytes/],
    [
      'too many bytes of Records, in a text',
      ['Content-Type', 'text/plain'],
      `${' '.repeat(5_000)}{ "Records": ${long}}`,
      /larger than 1048576 bytes/
    ]
  ]
  for (const [what, headers, body, said] of BAD) test(what, () => { assert.match(String(bodiesOf(headers, body)), said) })

  test('at the bounds nothing is', () => {
    assert.equal(bodiesOf(JSON_TYPE, many(BATCH_ITEMS_MAX)).length, BATCH_ITEMS_MAX)
    const body = `[${ONE}${' '.repeat(BATCH_BYTES_MAX - Buffer.byteLength(ONE) - 2)}]`
    assert.equal(Buffer.byteLength(body), BATCH_BYTES_MAX)
    assert.deepEqual(bodiesOf(JSON_TYPE, body), [ONE])
    // By its beginning no batch, and too large to be read as one.
    assert.equal(bodiesOf(JSON_TYPE, `{"a":${long},"Records":[]}`), 'single')
  })
})
