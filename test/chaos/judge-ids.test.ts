/** I13 over what a run left behind: one request, two ids. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Written } from './audit.ts'
import { BEGINNINGS, Identities, NEWEST } from './identities.ts'
import { judgeIds } from './judge-ids.ts'

const CALLER = { authorization: 'Bearer a', host: 'shop.test' }
const identities = new Identities([BEGINNINGS[0] ?? NEWEST, NEWEST], true)
const NAME = identities.of('hold', CALLER, 'k')
const [FIRST = '', SECOND = ''] = identities.idsOf(NAME)

function written (atMs: number, id: string, changes: Partial<Written> = {}): Written {
  return {
    atMs,
    gone: false,
    record: id,
    state: 'claimed',
    owner: 'o',
    attempt: 1,
    by: null,
    keepMs: 0,
    instance: 'one',
    print: null,
    transaction: String(atMs),
    ...changes
  }
}

const judged = (audit: readonly Written[], rows: readonly Written[] = []): string[] =>
  judgeIds({ audit: identities.named(audit), rows: identities.named(rows) }).map(({ detail }) => detail)

test('a claim under the other id while the first one stands is found, settled or not', () => {
  assert.equal(FIRST === SECOND, false)
  assert.deepEqual(judged([written(1, FIRST), written(2, FIRST, { state: 'completed' }), written(3, SECOND)]), [
    `record ${NAME.slice(0, 8)} was claimed under ${SECOND.slice(0, 8)} while it stood under ${FIRST.slice(0, 8)}`
  ])
})

test('a claim after it has gone is right, and so is one that takes it away itself', () => {
  assert.deepEqual(judged([written(1, FIRST), written(2, FIRST, { state: 'released', gone: true }), written(3, SECOND)]), [])
  const own = [
    written(1, FIRST),
    written(3, SECOND, { transaction: '7' }),
    written(3.4, FIRST, { state: 'released', gone: true, transaction: '7' })
  ]
  assert.deepEqual(judged(own), [])
  assert.deepEqual(identities.named(own).map(({ gone }) => gone), [false, true, false])
  assert.equal(
    judged(own.map((each) => ({ ...each, transaction: String(each.atMs) }))).length,
    1,
    'of another transaction it comes too late'
  )
})

test('two rows of one request are found, and a message beside the record of its own id is right', () => {
  assert.equal(judged([], [written(1, FIRST), written(1, SECOND)]).length, 1)
  const rows = identities.named([written(1, FIRST)])
  assert.equal(judgeIds({ audit: [], rows, accepted: new Map([[NAME, [SECOND]]]) }).length, 1)
  assert.deepEqual(judgeIds({ audit: [], rows, accepted: new Map([[NAME, [FIRST]]]) }), [])
})

test('two requests with one id are no two requests that a judge could tell apart', () => {
  assert.throws(() => identities.of('hold', { ...CALLER, tenant: 't' }, 'k'), /another request has this id/)
})
