import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judge, releasedStatus } from '../../../src/core/protocol/disposition.ts'
import { KEY_OVERTIME_MS } from '../../../src/core/key/issued-keys.ts'
import type { Disposition, Profile } from '../../../src/core/policy/policy.ts'

const DAY_MS = 24 * 60 * 60 * 1000
const policy = (profile: Profile, statuses: Array<[number, Disposition]> = [], body = true) => ({
  profile,
  hops: { none: false, header: null },
  leaseMs: 15_000,
  issued: null,
  keep: {
    statuses: new Map(statuses),
    body,
    requestBytesMax: 1,
    responseBytesMax: 1,
    dropHeaders: new Set<string>(),
    keepHeaders: new Set<string>()
  }
})
const dispose = (status: number, headers: string[] = [], body = '', by = policy('api')) =>
  judge({ status, headers, body: Buffer.from(body) }, by).disposition
const every = Array.from({ length: 500 }, (_, index) => 100 + index)

test('profile api keeps all but what says "not processed" and what a hop does not know', () => {
  const released = [401, 403, 407, 423, 425, 429]
  // Codes of hops in answers that do not show the hop, and statuses that both applications and hops use.
  const unknown = [408, 460, 463, 464, 499, 502, 503, 504, 520, 521, 522, 523, 524, 525, 526, 527, 530, 561, 598, 599]
  const table = new Map<number, Disposition>([
    ...released.map((status) => [status, 'release'] as const),
    ...unknown.map((status) => [status, 'unknown'] as const)
  ])
  for (const status of every) assert.equal(dispose(status), table.get(status) ?? 'keep', String(status))
})

test('a 409 with a Retry-After that can be read frees its key; without one it is kept', () => {
  for (const value of ['1', '0', ' 120 ', 'Wed, 21 Oct 2015 07:28:00 GMT']) {
    assert.equal(dispose(409, ['retry-after', value]), 'release', value)
  }
  for (const value of ['', 'soon', '-', '1h', '-1', '1.5', 'never 1']) assert.equal(dispose(409, ['Retry-After', value]), 'keep', value)
  assert.equal(dispose(409, ['Retry-After-Ms', '20', 'x-should-retry', 'true', 'Stripe-Should-Retry', 'true']), 'keep')
  assert.equal(dispose(409, ['Retry-After', '1'], '', policy('api', [[409, 'keep']])), 'keep')
  assert.equal(dispose(409, ['Retry-After', '1', 'Idempotency-Policy', 'store']), 'keep')
})

test('no hint to retry frees an answer that may stand for work', () => {
  const hints = ['Retry-After', '1', 'retry-after-ms', '20', 'Stripe-Should-Retry', 'true', 'x-should-retry', 'true']
  const kept = every.filter((status) => dispose(status) === 'keep' && status !== 409)
  for (const wanted of [200, 201, 202, 303, 307, 400, 404, 422, 500]) assert.ok(kept.includes(wanted), String(wanted))
  for (const status of kept) assert.equal(dispose(status, hints), 'keep', String(status))
  for (const status of [200, 302, 500]) {
    assert.equal(dispose(status, [...hints, 'Idempotency-Policy', 'release']), 'release')
    assert.equal(dispose(status, hints, '', policy('api', [[status, 'release']])), 'release')
  }
})

test('profile relay keeps success and "never again", and tries all else anew', () => {
  for (const status of every) {
    assert.equal(
      dispose(status, [], '', policy('relay')),
      (status >= 200 && status < 300) || status === 410 ? 'keep' : 'release',
      String(status)
    )
  }
})

test('a route can override single statuses in either profile', () => {
  for (const profile of ['api', 'relay'] as const) {
    for (const status of every) {
      for (const disposition of ['keep', 'release', 'unknown'] as const) {
        assert.equal(dispose(status, [], '', policy(profile, [[status, disposition]])), disposition)
      }
    }
  }
  assert.equal(dispose(503, [], '', policy('api', [[409, 'release']])), 'unknown')
})

test('the upstream steers a single answer', () => {
  const steer = (...lines: string[]) => judge(
    { status: 503, headers: lines.flatMap((line) => ['Idempotency-Policy', line]), body: Buffer.alloc(0) },
    policy('api', [[503, 'unknown']])
  )
  assert.equal(steer().disposition, 'unknown')
  assert.equal(steer('store').disposition, 'keep')
  assert.equal(steer('RELEASE').disposition, 'release')
  assert.equal(steer('store, release').disposition, 'release')
  assert.equal(steer('store', 'release').disposition, 'release')
  assert.equal(steer('storefront, x').disposition, 'unknown')
  assert.deepEqual(steer('no-body , store,ttl=3600'), { disposition: 'keep', keepBody: false, ttlMs: 3_600_000 })
})

test('a retention that the upstream asks for stays between two leases and a year', () => {
  const ttl = (text: string) => judge({ status: 200, headers: ['idempotency-policy', text], body: Buffer.alloc(0) }, policy('api')).ttlMs
  assert.deepEqual(['ttl=0', 'ttl=29', 'ttl=31', 'ttl=999999999999999'].map(ttl), [30_000, 30_000, 31_000, 366 * DAY_MS])
  for (const bad of ['ttl', 'ttl=', 'ttl=-1', 'ttl=1.5', 'ttl=1h', 'ttl=1e3', `ttl=${'9'.repeat(400)}`]) assert.equal(ttl(bad), null, bad)
})

test('a retention that the upstream asks for is never shorter than the life of a key that the gateway issued', () => {
  const issued = { scope: { kind: 'credential', anonymous: false, cookies: 'refuse' }, jwt: null, secrets: [], lifetimeMs: DAY_MS } as const
  const ttl = (text: string) =>
    judge({ status: 200, headers: ['idempotency-policy', text], body: Buffer.alloc(0) }, { ...policy('api'), issued }).ttlMs
  assert.deepEqual(['ttl=60', 'ttl=172800'].map(ttl), [DAY_MS + KEY_OVERTIME_MS, 2 * DAY_MS])
})

test('a body is kept unless the route or the upstream says otherwise', () => {
  const keeps = (body: boolean, header: string[]) =>
    judge({ status: 200, headers: header, body: Buffer.alloc(0) }, policy('api', [], body)).keepBody
  assert.deepEqual(
    [keeps(true, []), keeps(false, []), keeps(true, ['Idempotency-Policy', 'no-body']), keeps(false, ['Idempotency-Policy', 'store'])],
    [true, false, false, false]
  )
})

test('of a released answer a relay is told what every relay sends again after; success and challenges stay', () => {
  const relay = { action: 'retry', status: 503 } as const
  const told = (status: number, headers: string[] = []) => releasedStatus({ status, headers }, relay)
  const asTheyCame = new Set([500, 503, 504])
  for (const status of every) assert.equal(told(status), status < 300 || asTheyCame.has(status) ? status : 503, String(status))
  assert.equal(told(401, ['WWW-Authenticate', 'Digest realm="a"']), 401)
  assert.equal(told(403, ['WWW-Authenticate', 'Digest realm="a"']), 503)
  for (const status of every) assert.equal(releasedStatus({ status, headers: [] }, { action: 'pass', status: 503 }), status)
})
