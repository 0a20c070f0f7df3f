/**
 * Mechanisms of the gateway, taken out one by one: each break is a change of source text that register.ts applies while
 * modules are loaded. `breaks`: the invariants (or protocol rules) that stand or fall with it. Tests that claim to hold a
 * rule are run against these and must fail. Nothing in src/ knows of this file.
 */
import { CLOCK_BREAKS } from './clock.ts'
import { DOOR_BREAKS } from './door.ts'
import { EXECUTION_BREAKS } from './executions.ts'
import { FIELD_BREAKS } from './fields.ts'
import { HOP_BREAKS } from './hops.ts'
import { IDENTITY_BREAKS } from './identity.ts'
import { INBOX } from './inbox.ts'
import { INBOX_LIE_BREAKS } from './inbox-lies.ts'
import { INBOX_RULE_BREAKS } from './inbox-rules.ts'
import { INBOX_STORE_BREAKS } from './inbox-stores.ts'
import { LEASE_BREAKS } from './leases.ts'
import { MECHANISMS } from './mechanisms.ts'
import { POLICY_BREAKS } from './policies.ts'
import { PROBES } from './probes.ts'
import { SCHEME_BREAKS, SCHEME_STORE_BREAKS } from './schemes.ts'
import { SIMULATED } from './simulated.ts'
import { REDIS_PAST_BREAKS } from './redis-past.ts'
import { WAY_BREAKS } from './way.ts'

export interface Patch {
  /** Below src/ (or, for what only the simulation has, beside it). */
  readonly file: string
  /** Stands there exactly once. */
  readonly find: string
  readonly replace: string
}

export interface Break {
  readonly name: string
  /** What the broken build does. */
  readonly does: string
  readonly breaks: readonly string[]
  readonly patches: readonly Patch[]
}

/** The ways in which middlewares that were read do lie: each must be caught by the chaos run and by the simulation. */
export const LIES = [
  'release-on-disconnect', 'skip-claim', 'accept-any-owner', 'settle-after-answer', 'ignore-lease', 'reread-in-doubt',
  'replay-unsettled'
] as const

/** The same for mode drop: caught by the chaos run. */
export const DROP_LIES = ['done-before-the-answer', 'remove-any-mark'] as const

export const BREAKS: readonly Break[] = [
  ...MECHANISMS,
  ...PROBES,
  ...SIMULATED,
  ...REDIS_PAST_BREAKS,
  ...DOOR_BREAKS,
  ...HOP_BREAKS,
  ...CLOCK_BREAKS,
  ...INBOX,
  ...INBOX_LIE_BREAKS,
  ...INBOX_STORE_BREAKS,
  ...INBOX_RULE_BREAKS,
  ...LEASE_BREAKS,
  ...EXECUTION_BREAKS,
  ...WAY_BREAKS,
  ...POLICY_BREAKS,
  ...FIELD_BREAKS,
  ...SCHEME_BREAKS,
  ...SCHEME_STORE_BREAKS,
  ...IDENTITY_BREAKS,
  {
    name: 'done-before-the-answer',
    does: 'marks an event as done when it is sent, and says so to its duplicates: what then fails was acknowledged',
    breaks: ['D1'],
    patches: [{
      file: 'gateway/drop/mark.ts',
      find: "policy.mark === 'before'\n    ? ['done', policy.windowMs]",
      replace: "policy.mark !== null ? ['done', policy.windowMs]"
    }]
  },
  {
    name: 'remove-any-mark',
    does: 'takes back whatever mark stands there, whoever has made it',
    breaks: ['D2'],
    patches: [{
      file: 'store/postgres/marks.ts',
      find: 'on m.id = w.id and m.token = w.token',
      replace: 'on m.id = w.id and w.token is not null'
    }]
  },
  {
    name: 'release-on-disconnect',
    does: 'gives the key free when the first requester leaves while its request is being executed',
    breaks: ['E1', 'I1', 'I2', 'I10'],
    patches: [{
      file: 'gateway/way.ts',
      find: '    beginExecution(this.#context, request)\n',
      replace: `    beginExecution(this.#context, request)
    const { deps: { records, locks }, executions } = this.#context
    void keyed.gone().then(() => {
      if (request.sentAtMs === null || request.sending === null || executions.get(keyed.name) !== request) return
      request.sending.cancel('CLIENT_GONE', false)
      executions.remove(request)
      return records.settle({ token: request.token, outcome: 'released', keepMs: keyed.route.idempotency.retentionMs, status: null, headers: null, body: null, reason: null })
        .then(() => locks.unlock(keyed.id, request.owner))
    }).catch(() => {})
`
    }]
  },
  {
    name: 'skip-claim',
    does: 'sends without a row that says who sends: the lock in Redis is taken for enough',
    breaks: ['P1', 'I1', 'I2', 'I4'],
    patches: [
      {
        file: 'gateway/claim/claim.ts',
        find: '  context.recordLanes.insert(execution.claim, execution)\n',
        replace: `  context.deps.records.look(keyed.id).then((seen) => {
    if (seen === null) execution.claimed({ kind: 'won', attempt: 1 })
    else context.recordLanes.insert(execution.claim, execution)
  }, (error: unknown) => { execution.claimFailed(error) })
`
      },
      {
        file: 'gateway/claim/claim.ts',
        find: '    return granted(context, execution, () => records.insert(execution.claim))\n',
        replace: `    execution.grant(readClocks(context.deps.clock))
    if (await records.look(keyed.id) === null) return { kind: 'won', attempt: 1 }
    return granted(context, execution, () => records.insert(execution.claim))
`
      }
    ]
  },
  {
    name: 'accept-any-owner',
    does: 'lets any execution settle a record, whoever has claimed it',
    breaks: ['P7', 'I1', 'I3', 'I4', 'I7', 'I10', 'I11'],
    patches: [
      {
        file: 'core/protocol/transitions.ts',
        find: "      if (!holds(event.settlement.token, row)) return 'token'\n      return row.state === 'consumed'",
        replace: "      return row.state === 'consumed'"
      },
      {
        file: 'store/postgres/settles.ts',
        find: 'r.owner = w.owner and r.attempt = w.attempt\n     and case r.state',
        replace: 'case r.state'
      },
      {
        file: 'store/sqlite/table.ts',
        find: "where id = ? and owner = ? and attempt = ? and state = 'claimed'",
        replace: "where id = ? and (owner = ? or attempt = ? or true) and state = 'claimed'"
      }
    ]
  },
  {
    name: 'settle-after-answer',
    does: 'gives the answer, and calls it stored, before the store has acknowledged it',
    breaks: ['E5', 'I11', 'I4', 'I7'],
    patches: [{
      file: 'gateway/settle/settle.ts',
      find: '  context.recordLanes.settle(plan.settlement, execution)\n',
      replace: `  const { settleAsked: { monotonicMs, offsetMs } } = execution
  execution.end(storedResult(context, plan, { kind: 'stored', keepLeftMs: plan.settlement.keepMs, askedAtMs: monotonicMs, askedAtWallMs: monotonicMs + offsetMs }))
  context.recordLanes.settle(plan.settlement, execution)
`
    }]
  },
  {
    name: 'ignore-lease',
    does: 'sends although its lease is over',
    breaks: ['E0', 'I2', 'I4'],
    patches: [{
      file: 'gateway/forward/forward.ts',
      find: 'const may = !execution.cancelled && !execution.leaseLost && !suspended && now + leaseMs * MARGIN_SHARE < execution.leaseEndsAtMs\n',
      replace: 'const may = !execution.cancelled || (suspended && leaseMs < 0)\n'
    }]
  },
  {
    name: 'reread-in-doubt',
    does: 'believes what it reads of a claim whose reply was lost, and gives up a token that it does not see',
    breaks: ['I2', 'I9', 'P6'],
    patches: [{
      file: 'gateway/claim/claim.ts',
      find: '  return confirmDoubted(context, execution)\n',
      replace: `  const { records, clock } = context.deps
  execution.grant(readClocks(clock))
  const seen = await records.look(execution.keyed.id)
  if (seen?.state === 'claimed' && seen.owner.equals(execution.owner)) return { kind: 'won', attempt: seen.attempt }
  throw new StoreUnavailable(records.name, 'reread', true, error)
`
    }, {
      file: 'gateway/execution/guarded-request.ts',
      find: 'for (const attempt of new Set([this.attempt, 1])) this.doubted.push(',
      replace: 'for (const attempt of new Set<number>()) this.doubted.push('
    }]
  },
  {
    name: 'replay-unsettled',
    does: 'replays an answer that Redis has and the arbiter does not',
    breaks: ['I11', 'I3', 'I7'],
    patches: [{
      file: 'gateway/claim/redis-decision.ts',
      find: '  const settling = context.writes.settleUnsettledCopy(execution, token, copy)',
      replace: `  if (comparison === 'same') return { kind: 'completed', answer: copy.answer, expiresAtMs: context.deps.clock.wallMs() + copy.keepMs }
  const settling = context.writes.settleUnsettledCopy(execution, token, copy)`
    }]
  }
]

export function breakNamed (name: string): Break {
  const found = BREAKS.find((each) => each.name === name)
  if (found === undefined) throw new Error(`there is no break "${name}": ${BREAKS.map((each) => each.name).join(', ')}`)
  return found
}
