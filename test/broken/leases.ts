/**
 * What goes wrong where a rule of leases and doubtful claims is left out (P4, P6, E2, E2b, E0), and the rows of the
 * fault table that each belongs to.
 */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const CLAIMING = 'gateway/claim/claim.ts'
const EXECUTION = 'gateway/execution/guarded-request.ts'

export const LEASE_BREAKS: readonly Break[] = [
  {
    name: 'lease-from-the-reply',
    does: 'counts its lease from the reply of the statement that granted it',
    breaks: ['P4', 'I2'],
    patches: [
      {
        file: CLAIMING,
        find: '  execution.grant(readClocks(context.deps.clock))\n  context.recordLanes.insert(',
        replace: '  context.recordLanes.insert('
      },
      {
        file: CLAIMING,
        find: '    execution.grant(readClocks(context.deps.clock))\n    return await statement()\n',
        replace: '    return await statement()\n'
      },
      {
        file: CLAIMING,
        find: '    execution.grant(readClocks(context.deps.clock))\n    return await context.deps.records.confirm(',
        replace: '    return await context.deps.records.confirm('
      },
      {
        file: 'gateway/execute.ts',
        find: '  const nowMs = clock.monotonicMs()\n  keyed.steps.claimMs =',
        replace: `  const nowMs = clock.monotonicMs()
  request.grant({ monotonicMs: nowMs, offsetMs: clock.wallMs() - nowMs })
  keyed.steps.claimMs =`
      }
    ]
  },
  {
    name: 'lease-without-end',
    does: 'renews a lease for as long as its execution lasts, whatever holds that up',
    breaks: ['E2', 'I9'],
    patches: [{ file: 'gateway/execution/lease-renewal.ts', find: '(now < execution.hardEndMs() || ', replace: '(now < Infinity || ' }]
  },
  {
    name: 'sleep-is-contact',
    does: 'counts the time for which the machine was suspended as contact with the arbiter',
    breaks: ['E2b', 'I2'],
    patches: [{
      file: 'gateway/shared/lapse-guard.ts',
      find: 'Math.max(this.#clock.monotonicMs() - this.#lastContactMs, this.#clock.wallMs() - this.#lastContactWallMs)',
      replace: 'Math.max(this.#clock.monotonicMs() - this.#lastContactMs, this.#lastContactWallMs * 0)'
    }]
  },
  {
    name: 'own-leases-lapse',
    does: 'ends the leases of its own executions when their renewals are late',
    breaks: ['E2b'],
    patches: [{
      file: 'gateway/execution/executions.ts',
      find: 'return this.all().map((execution) => execution.owner)',
      replace: 'return this.all().slice(this.size).map((execution) => execution.owner)'
    }]
  },
  {
    name: 'sleepers-send',
    does: 'believes in a lease that may have ended while the machine was suspended',
    breaks: ['E0', 'E2b', 'I2'],
    patches: [{
      file: 'gateway/forward/forward.ts',
      find: '!execution.leaseLost && !suspended && ',
      replace: '!execution.leaseLost && !(suspended && leaseMs < 0) && '
    }]
  },
  {
    name: 'no-margin',
    does: 'sends with less of the lease left than the way from the check to the wire may take',
    breaks: ['E0'],
    patches: [{ file: 'gateway/forward/forward.ts', find: 'now + leaseMs * MARGIN_SHARE < execution', replace: 'now < execution' }]
  },
  {
    name: 'lost-leases-send',
    does: 'sends although it was told that somebody else has its record',
    breaks: ['E0', 'I2'],
    patches: [{ file: 'gateway/forward/forward.ts', find: '!execution.leaseLost && !suspended && ', replace: '!suspended && ' }]
  },
  {
    name: 'expected-attempt-only',
    does: 'gives back a claim in doubt as the attempt that it expected, and not as the first of a new life',
    breaks: ['P6'],
    patches: [{ file: EXECUTION, find: 'new Set([this.attempt, 1])', replace: 'new Set([this.attempt])' }]
  },
  {
    name: 'first-attempt-only',
    does: 'gives back a claim in doubt as the first attempt of a life, and not as the one that it expected',
    breaks: ['P6'],
    patches: [{ file: EXECUTION, find: 'new Set([this.attempt, 1])', replace: 'new Set([1])' }]
  }
]

export const LEASE_ROWS: readonly FaultRow[] = [
  {
    fault: "claim's commit takes longer than its lease",
    moment: 'claim',
    seen: '0',
    record: 'released, unless somebody has taken it',
    client: '503 + `Retry-After`; a retry executes',
    test: ['gateway/claim/slow-claim.test.ts', 'a claim is not believed for a lease after its reply: its insert took longer to commit'],
    breaks: 'lease-from-the-reply'
  },
  {
    fault: 'execution that nothing ends',
    moment: 'after `upstream.timeout` and the time for settling',
    seen: '≤ 1',
    record: 'claimed, then indeterminate: its lease is renewed no more',
    client: 'in flight, then as `unknown` says',
    test: ['gateway/claim/hard-end.test.ts', 'an execution that nothing ends does not stay claimed for ever'],
    breaks: 'lease-without-end'
  },
  {
    fault: 'machine suspended',
    moment: "others' executions, on machines that slept with it",
    seen: '≤ 1',
    record: 'claimed; nobody takes it before a lease of contact, in which the living renew',
    client: 'in flight',
    test: ['gateway/claim/lapse.test.ts', 'a machine that was suspended counts its lease of contact anew'],
    breaks: 'sleep-is-contact'
  },
  {
    fault: 'machine suspended',
    moment: 'between the claim and the send',
    seen: '0',
    record: 'released, unless somebody has taken it',
    client: '503 + `Retry-After`; a retry executes',
    test: ['gateway/forward/busy-pool.test.ts', 'nothing is sent when the machine was suspended'],
    breaks: 'sleepers-send'
  },
  {
    fault: 'process paused',
    moment: 'between the claim and the send, until a sliver of the lease is left',
    seen: '0',
    record: 'released',
    client: '503 + `Retry-After`; a retry executes',
    test: ['gateway/forward/busy-pool.test.ts', 'nothing is sent when only a sliver of the lease is left'],
    breaks: 'no-margin'
  },
  {
    fault: 'lease taken by somebody else',
    moment: 'between the claim and the send',
    seen: '0',
    record: 'as the other one leaves it',
    client: '503 + `Retry-After`',
    test: ['gateway/forward/busy-pool.test.ts', 'nothing is sent when the arbiter says that the lease is lost'],
    breaks: 'lost-leases-send'
  },
  {
    fault: 'own row locked for longer than a lease',
    moment: 'while its execution runs here',
    seen: '1',
    record: 'claimed: a process never ends the lease of what it executes itself',
    client: 'the answer',
    test: ['gateway/claim/lapse.test.ts', 'a process never ends the lease of its own execution'],
    breaks: 'own-leases-lapse'
  },
  {
    fault: 'reply of a commit lost, and of its confirmation',
    moment: 'claim of a released record; it comes through late',
    seen: '0',
    record: 'released, as the attempt that was expected',
    client: '503 and nothing was sent; a retry executes',
    test: ['gateway/claim/claim-in-doubt.test.ts', 'a take in doubt that comes through late is given back'],
    breaks: 'first-attempt-only'
  },
  {
    fault: 'reply of a commit lost, and of its confirmation',
    moment: 'claim of a released record, which is swept before the confirmation comes through',
    seen: '0',
    record: 'released, as the first attempt of a new life',
    client: '503 and nothing was sent; a retry executes',
    test: ['gateway/claim/claim-in-doubt.test.ts', 'a take in doubt whose confirmation comes through after the row was swept'],
    breaks: 'expected-attempt-only'
  }
]
