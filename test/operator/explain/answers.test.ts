/** What an explanation says equals what the gateway then answers: in each state of a record, to the same request and to another. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { fingerprintOf } from '../../../src/core/fingerprint/fingerprint.ts'
import type { IdempotencyPolicy } from '../../../src/core/policy/policy.ts'
import { encodeHeaders } from '../../../src/core/protocol/codec.ts'
import type { Claim, Settlement, UnknownReason } from '../../../src/core/record/record.ts'
import { explain } from '../../../src/operator/explain/explain.ts'
import type { RecordStore } from '../../../src/ports/records.ts'
import type { MemoryStore } from '../../../src/store/memory/records.ts'
import { apiPolicy, guardedRoute, relayPolicy, startGateway } from '../../harness/gateway.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { call } from '../../harness/call.ts'
import { inboxPolicy } from '../../gateway/inbox/inbox-world.ts'
import { agree, askedOf, startExplained } from './explain-world.ts'
import type { Asking, ExplainWorld } from './explain-world.ts'

const LEASE_MS = 15_000
const KEEP_MS = 3_600_000
const FIRST = { headers: { 'Idempotency-Key': 'k', Authorization: 'Bearer hunter2' } }

interface Situation {
  readonly name: string
  /** Brings the record of the first request into its state. */
  readonly make: (world: ExplainWorld, claim: Claim) => Promise<unknown>
  readonly seenAs?: (records: MemoryStore) => RecordStore
}

function settled (claim: Claim, outcome: Settlement['outcome'], more: Partial<Settlement> = {}): Settlement {
  const token = { id: claim.id, owner: claim.owner, attempt: 1 }
  return { token, outcome, keepMs: KEEP_MS, status: null, headers: null, body: null, reason: null, ...more }
}

const STORED = { status: 201, headers: encodeHeaders(['X-Custom', 'kept']), body: Buffer.from('stored') }

async function claimThenSettle (
  { records }: ExplainWorld,
  claim: Claim,
  ...rest: [outcome: Settlement['outcome'], more?: Partial<Settlement>]
): Promise<void> {
  assert.equal((await records.insert(claim)).kind, 'won')
  assert.equal((await records.settle(settled(claim, ...rest))).kind, 'settled')
}

/** Lets time pass in unbroken contact with the store, so that leases may end. */
async function inContact ({ gateway, clock }: ExplainWorld, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 1_000) {
    gateway.lapseGuard.confirmContact()
    await clock.advance(1_000)
  }
  gateway.lapseGuard.confirmContact()
}

async function resolved (world: ExplainWorld, claim: Claim, outcome: 'released' | 'completed'): Promise<void> {
  await claimThenSettle(world, claim, 'indeterminate', { reason: { stage: 'during', code: 'ECONNRESET' } })
  world.clock.stall(claim.quarantineMs)
  const { kind } = await world.records.resolve({
    token: { id: claim.id, owner: claim.owner, attempt: 1 },
    outcome,
    keepMs: KEEP_MS,
    ...outcome === 'completed' ? STORED : { status: null, headers: null, body: null },
    by: 'operator',
    tries: null,
    audit: { action: 'resolve', who: 'test', why: 'test' }
  })
  assert.equal(kind, 'done')
}

function unknown (stage: UnknownReason['stage'], code: string, status: number | null = null): Situation {
  return {
    name: `unknown: ${stage}/${code}`,
    make: async (world, claim) => claimThenSettle(world, claim, 'indeterminate', { reason: { stage, code }, status })
  }
}

/** Rows of another build: none of its states is known here. */
function undecodable (records: MemoryStore): RecordStore {
  const altered = <Row extends object>(row: Row): Row => ({ ...row, state: 'undecodable' })
  return new Proxy(records, {
    get: (target, name) => {
      if (name === 'list') return async (...args: Parameters<MemoryStore['list']>) => (await target.list(...args)).map(altered)
      if (name === 'insert') {
        return async (...args: Parameters<MemoryStore['insert']>) => {
          const result = await target.insert(...args)
          return result.kind === 'seen' ? { ...result, row: altered(result.row) } : result
        }
      }
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) as unknown : value
    }
  })
}

const SITUATIONS: readonly Situation[] = [
  { name: 'nothing', make: async () => {} },
  { name: 'in flight', make: async ({ records, clock }, claim) => { await records.insert(claim); clock.stall(3_000) } },
  {
    name: 'in flight, and its renewal is overdue',
    make: async ({ records, clock }, claim) => { await records.insert(claim); clock.stall(LEASE_MS - 4_000) }
  },
  { name: 'its lease is over', make: async (world, claim) => { await world.records.insert(claim); await inContact(world, 2 * LEASE_MS) } },
  { name: 'completed', make: async (world, claim) => claimThenSettle(world, claim, 'completed', STORED) },
  {
    name: 'completed, and unreadable',
    make: async (world, claim) => claimThenSettle(world, claim, 'completed', { ...STORED, headers: Buffer.from([255, 255]) })
  },
  { name: 'consumed', make: async (world, claim) => claimThenSettle(world, claim, 'consumed', { status: 207 }) },
  { name: 'released, not sent', make: async (world, claim) => claimThenSettle(world, claim, 'released') },
  { name: 'released by its answer', make: async (world, claim) => claimThenSettle(world, claim, 'released', { status: 429 }) },
  { name: 'released by an operator', make: async (world, claim) => resolved(world, claim, 'released') },
  { name: 'resolved by an operator', make: async (world, claim) => resolved(world, claim, 'completed') },
  unknown('during', 'ECONNRESET'),
  unknown('during', 'UPSTREAM_TIMEOUT'),
  unknown('hop', 'HTTP', 504),
  unknown('hop', 'HTTP', 502),
  unknown('drain', 'DRAIN'),
  unknown('settle', 'REFUSED'),
  {
    name: 'past',
    make: async (world, claim) => { await claimThenSettle(world, claim, 'completed', STORED); world.clock.stall(KEEP_MS + 1) }
  },
  {
    name: 'past and unknown',
    make: async (world, claim) => { await claimThenSettle(world, claim, 'indeterminate'); world.clock.stall(KEEP_MS + 1) }
  },
  { name: 'undecodable', make: async (world, claim) => claimThenSettle(world, claim, 'completed', STORED), seenAs: undecodable }
]

const POLICIES: Readonly<Record<string, Partial<IdempotencyPolicy>>> = {
  api: {},
  relay: relayPolicy({ inFlight: { waitMs: 0, status: 503 }, fingerprint: { of: ['method', 'target', 'body'], body: 'auto' } }),
  'unknown: retry': { unknown: 'retry' },
  'unknown: probe': { unknown: 'probe' },
  'onMismatch: replay': { onMismatch: { action: 'replay', status: 422 } },
  'statuses of its own': { onMismatch: { action: 'reject', status: 409 }, inFlight: { waitMs: 0, status: 425 } },
  waits: { inFlight: { waitMs: 20, status: 409 } },
  'async: allowed': { inbox: inboxPolicy(), inboxFor: 'asked' },
  'mode: inbox': { inbox: inboxPolicy(), inboxFor: 'all', unknown: 'retry' },
  'mode: inbox, relay': { ...relayPolicy({ inFlight: { waitMs: 0, status: 503 } }), inbox: inboxPolicy(), inboxFor: 'all' }
}

const REQUESTS: Readonly<Record<string, Asking>> = {
  'the same request': FIRST,
  'another body': { ...FIRST, body: 'other' },
  'another caller': { headers: { ...FIRST.headers, Authorization: 'Bearer another' } },
  'respond-async': { headers: { ...FIRST.headers, Prefer: 'respond-async' } },
  'another body, respond-async': { headers: { ...FIRST.headers, Prefer: 'respond-async' }, body: 'other' }
}

async function claimOf (world: ExplainWorld): Promise<Claim> {
  const { route: { idempotency, upstream, name }, context, records } = world
  const asked = askedOf(world, FIRST)
  const { ids: [id = ''] } = await explain(context, asked)
  const { method, target, headers: rawHeaders, body } = asked
  return {
    id: Buffer.from(id, 'base64url'),
    scheme: records.scheme,
    earlierId: null,
    owner: Buffer.alloc(16, 9),
    fingerprint: fingerprintOf({ method, target, rawHeaders, body }, idempotency.fingerprint, 2),
    leaseMs: LEASE_MS,
    unknownKeepMs: idempotency.unknownRetentionMs,
    quarantineMs: upstream.timeoutMs + LEASE_MS,
    question: null,
    about: { route: name, method, path: target, requestId: 'r', instance: 'gw-9', keyHash: Buffer.alloc(32), keyText: null }
  }
}

for (const [policyName, policy] of Object.entries(POLICIES)) {
  for (const { name, make, seenAs } of SITUATIONS) {
    test(`${policyName}, ${name}: the explanation and the gateway say the same`, async (t) => {
      for (const [requestName, asking] of Object.entries(REQUESTS)) {
        await t.test(requestName, async (t) => {
          const world = await startExplained(t, { policy, ...seenAs !== undefined && { seenAs } })
          await make(world, await claimOf(world))
          await agree(world, asking, (policy.inFlight?.waitMs ?? 0) > 0 ? world.clock : undefined)
        })
      }
    })
  }
}

// ---------------------------------------------------------------- messages

/** The first request was accepted by a gateway whose route has an inbox. `more`: its request. */
async function accepted (t: TestContext, { records, inbox, clock, witness }: ExplainWorld, more: Asking): Promise<void> {
  const policy = { inbox: inboxPolicy(), inboxFor: more.headers === undefined ? 'all' as const : 'asked' as const }
  const world = { records, inbox, clock, locks: NO_LOCKS }
  const other = await startGateway(t, { routes: [guardedRoute(witness.url, policy)], background: false, world })
  const answer = await call(other.url, '/things', { body: 'same', headers: { ...FIRST.headers, ...more.headers } })
  assert.equal(answer.status, 202)
}

for (const [policyName, policy] of Object.entries(POLICIES)) {
  for (const [how, more] of Object.entries({ 'mode: inbox': {}, 'respond-async': { headers: { Prefer: 'respond-async' } } })) {
    test(`${policyName}, accepted before by ${how}: the explanation and the gateway say the same`, async (t) => {
      for (const [requestName, asking] of Object.entries(REQUESTS)) {
        await t.test(requestName, async (t) => {
          const world = await startExplained(t, { policy })
          await accepted(t, world, more)
          const { told } = await agree(world, asking)
          if (requestName === 'the same request') assert.equal(told.message?.state, 'waiting')
        })
      }
    })
  }
}

// ---------------------------------------------------------------- the words

async function wordsIn (t: TestContext, name: string, policy: Partial<IdempotencyPolicy> = {}): Promise<string> {
  const situation = SITUATIONS.find((each) => each.name === name)
  const world = await startExplained(t, { policy: apiPolicy(policy) })
  await situation?.make(world, await claimOf(world))
  return (await explain(world.context, askedOf(world, FIRST))).answer.sentences.join(' ')
}

const WORDS: ReadonlyArray<readonly [situation: string, policy: Partial<IdempotencyPolicy>, words: RegExp]> = [
  ['nothing', {}, /Nothing is stored under this key\. It is sent to the upstream/],
  ['in flight', {}, /in flight at gateway gw-9 since 2026-.*attempt 1.*gets 409 `in-flight` with Retry-After: 3\./],
  ['in flight', { inFlight: { waitMs: 2_000, status: 409 } }, /waits for the answer, for 2s at most, because .* inFlight\.wait/],
  ['its lease is over', {}, /its lease is over.*504 `outcome-unknown`.*unknown: hold.*not been in contact/],
  ['completed', {}, /status 201, as the upstream answered.*kept until 2026-.*stored answer again, 201/],
  ['released by its answer', {}, /answered 429, which says on this route that nothing was done/],
  ['released by an operator', {}, /An operator has released it.*If the first sending ends with an answer after all/],
  ['unknown: hop/HTTP', { unknown: 'retry' }, /cannot tell whether.*\(hop\/HTTP\).*unknown: retry.*Idempotency-Attempt: 2/],
  ['unknown: settle/REFUSED', {}, /An operator may release it from 2026-.* on\. Until then the first sending may still be under way/]
]

for (const [situation, policy, words] of WORDS) {
  test(`${situation} ${JSON.stringify(policy)}: says why`, async (t) => { assert.match(await wordsIn(t, situation, policy), words) })
}

test('no sentence is longer than 25 words', async (t) => {
  for (const { name } of SITUATIONS) {
    for (const policy of Object.values(POLICIES)) {
      const sentences = (await wordsIn(t, name, policy)).split(/(?<=[.!?]) /)
      assert.deepEqual(sentences.filter((sentence) => sentence.split(' ').length > 25), [], name)
    }
  }
})
