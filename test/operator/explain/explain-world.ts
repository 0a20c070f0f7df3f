/** A gateway over memory stores on a clock of the test, and the context by which its requests are explained. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { GuardedRoute, IdempotencyPolicy, UpstreamPolicy } from '../../../src/core/policy/policy.ts'
import type { AskedRequest } from '../../../src/operator/explain/asked.ts'
import { explain } from '../../../src/operator/explain/explain.ts'
import type { ExplainContext, Explanation } from '../../../src/operator/explain/explain.ts'
import type { Deps } from '../../../src/gateway/shared/deps.ts'
import type { RecordStore } from '../../../src/ports/records.ts'
import { compileRoutes } from '../../../src/routing/match.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { MemoryStore } from '../../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { call } from '../../harness/call.ts'
import type { Called } from '../../harness/call.ts'
import { guardedRoute, startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'
import { ManualClock } from '../../harness/manual-clock.ts'

const READS: ReadonlySet<PropertyKey> = new Set(['look', 'list', 'schemes', 'lostAlgorithms', 'mayBeLost', 'stands'])

/** Fails the test if an explanation does more than read. */
export function reading<Store extends object> (store: Store): Store {
  return new Proxy(store, {
    get: (target, name) => {
      assert.ok(READS.has(name), `an explanation asked for ${String(name)}`)
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) as unknown : value
    }
  })
}

export interface ExplainWorld extends Guarded {
  readonly clock: ManualClock
  readonly records: MemoryStore
  readonly inbox: MemoryInbox
  readonly route: GuardedRoute
  readonly context: ExplainContext
}

export interface WorldOptions extends Omit<GuardedOptions, 'world'> {
  readonly world?: Partial<Deps>
  readonly scheme?: string
  readonly policy?: Partial<IdempotencyPolicy>
  readonly upstream?: Partial<UpstreamPolicy>
  /** Replaces what both the gateway and the explanation see of the records. */
  readonly seenAs?: (records: MemoryStore) => RecordStore
}

export async function startExplained (t: TestContext, options: WorldOptions = {}): Promise<ExplainWorld> {
  const { world = {}, scheme = '2', policy = {}, upstream = {}, seenAs = (store) => store, ...more } = options
  const clock = new ManualClock()
  const records = new MemoryStore({ nowMs: clock.wallMs, scheme })
  const inbox = new MemoryInbox({ nowMs: clock.wallMs, records })
  const seen = seenAs(records)
  const guarded = await startGuarded(t, {
    background: false,
    policy,
    upstream,
    ...more,
    world: { records: seen, inbox, clock, locks: NO_LOCKS, ...world }
  })
  const route = guardedRoute(guarded.witness.url, policy, upstream)
  const { marks, tokens, secrets = [] } = guarded.world
  const context: ExplainContext = {
    routes: [route],
    matcher: compileRoutes([route]),
    records: reading(seen),
    inbox: reading(inbox),
    marksOf: (name, drop) => reading(marks.of(name, drop)),
    tokens,
    secrets,
    clock: guarded.world.clock,
    trusts: () => false
  }
  return { ...guarded, clock, records, inbox, route, context }
}

export interface Asking {
  readonly method?: string
  readonly target?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

export function askedOf ({ url }: Pick<Guarded, 'url'>, asking: Asking): AskedRequest {
  const { method = 'POST', target = '/things', headers = {}, body = 'same' } = asking
  return { method, target, host: new URL(url).host, headers: Object.entries(headers).flat(), body: Buffer.from(body) }
}

/** The explanation of a request, and then the gateway's answer to that very request. Both must say the same. */
export async function agree (world: ExplainWorld, asking: Asking, waits?: ManualClock): Promise<{ told: Explanation, answer: Called }> {
  const told = await explain(world.context, askedOf(world, asking))
  const before = world.witness.seen.length
  const { method = 'POST', target = '/things', headers = {}, body = 'same' } = asking
  const answer = await inTime(call(world.url, target, { method, headers, body }), waits)
  const { does, status, code, sentences } = told.answer
  const words = sentences.join(' ')
  const sent = does === 'is-executed' || does === 'passes' || does === 'is-flagged'
  assert.equal(world.witness.seen.length - before, sent ? 1 : 0, `${does}: ${words}`)
  if (!sent) assert.deepEqual([status, code], [answer.status, codeOf(answer)], words)
  else assert.deepEqual([status, code, codeOf(answer)], [null, null, null], words)
  const mark = MARKS[does]
  if (mark !== undefined) assert.equal(answer.headers['idempotency-status'], mark, words)
  const wait = answer.headers['retry-after']
  if (code !== null && wait !== undefined && /Retry-After: /.test(words)) assert.match(words, new RegExp(`Retry-After: ${wait}\\b`))
  assert.ok(sentences.length > 0 && sentences.every((sentence) => /^[A-Z].*[.!]$/.test(sentence)), words)
  return { told, answer }
}

const MARKS: Readonly<Partial<Record<Explanation['answer']['does'], string>>> = {
  replays: 'replayed', 'is-accepted': 'accepted', 'shows-status': 'consumed', 'is-dropped': 'duplicate', 'is-flagged': 'duplicate'
}

function codeOf ({ headers, text }: Called): string | null {
  return headers['content-type'] === 'application/problem+json' ? (JSON.parse(text) as { code: string }).code : null
}

/** `waits`: its time passes until the answer is there. */
async function inTime (calling: Promise<Called>, waits?: ManualClock): Promise<Called> {
  if (waits === undefined) return calling
  const state = { answered: false }
  const noting = calling.finally(() => { state.answered = true })
  while (!state.answered) await waits.advance(1)
  return noting
}
