/** The fault table's rows of the arbiter's clock, and the breaks that they name. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const ARBITER_CLOCK = 'gateway/shared/arbiter-clock.ts'

export const CLOCK_ROWS: readonly FaultRow[] = [
  {
    fault: "the arbiter's clock steps ahead",
    moment: 'any: before anybody has noticed',
    seen: '1',
    record: 'as if it had not: over when it is over by the gateways\' own clocks as well',
    client: 'in flight, or a replay',
    test: ['store/postgres/clock.test.ts', 'a step ahead ends nothing between two signs of life'],
    breaks: 'any-time-believed'
  },
  {
    fault: "the arbiter's clock steps ahead",
    moment: 'a row that is past by it is taken',
    seen: '1',
    record: 'as it was',
    client: 'a replay',
    test: ['store/shared/believed-time.test.ts', 'leases and retentions of records'],
    breaks: 'taken-by-any-time'
  },
  {
    fault: "the arbiter's clock steps ahead",
    moment: 'after it was noticed',
    seen: '1',
    record: 'nothing lapses or is swept, until an operator confirms the time or all that was kept is over',
    client: 'in flight, or a replay',
    test: ['gateway/claim/arbiter-clock.test.ts', "while the arbiter's clock is ahead nothing lapses"],
    breaks: 'swept-by-any-time'
  },
  {
    fault: "the arbiter's clock steps ahead",
    moment: 'a gateway starts behind it',
    seen: '1',
    record: 'as the others have found',
    client: 'a replay',
    test: ['store/postgres/clock.test.ts', 'a gateway that starts after the step takes the word of those who saw it'],
    breaks: 'finders-unheard'
  },
  {
    fault: 'the arbiter\'s clock steps ahead',
    moment: 'behind an operator\'s word that it is right, before a gateway has heard that',
    seen: '1',
    record: 'as it was',
    client: 'a replay',
    test: ['store/postgres/clock.test.ts', 'what steps behind the operator\'s word is a step, also where nobody has heard of it yet'],
    breaks: 'confirmed-as-it-comes'
  },
  {
    fault: 'the arbiter\'s clock is set back',
    moment: 'all gateways have been started behind its step',
    seen: '1',
    record: 'lapses and ends as always again',
    client: 'as if nothing had been',
    test: ['store/postgres/clock.test.ts', 'a clock that is set back is believed again by those who have started behind the step'],
    breaks: 'set-back-unseen'
  },
  {
    fault: "a gateway's machine stands still, and its clocks do not know",
    moment: 'it finds the arbiter ahead',
    seen: '1',
    record: 'as it was: the others find nothing wrong, and it begins its wait for the dead anew',
    client: 'as if nothing had been',
    test: ['store/postgres/clock.test.ts', 'whoever stood still accuses itself alone'],
    breaks: 'accusers-believed'
  },
  {
    fault: "the arbiter's clock is behind the last time that it has seen",
    moment: 'a gateway starts',
    seen: '0',
    record: 'none: nothing is served until the clock is set or confirmed',
    client: '503; of the embedded store connection error',
    test: ['e2e/clock-step.test.ts', 'a machine whose clock is behind the last time that the store has seen'],
    breaks: 'starts-in-the-past'
  }
]

export const CLOCK_BREAKS: readonly Break[] = [
  {
    name: 'any-time-believed',
    does: "lets leases and retentions end by whatever the arbiter's clock says",
    breaks: ['I1', 'P4'],
    patches: [{
      file: ARBITER_CLOCK,
      find: '    if (this.#believed === null) return null\n',
      replace: '    if (this.#believed !== null || this.#beats >= 0) return null\n'
    }]
  },
  {
    name: 'taken-by-any-time',
    does: 'takes a row that is past by a time that it does not believe',
    breaks: ['I1', 'P4'],
    patches: [{
      file: 'store/postgres/claims.ts',
      find: 'and coalesce((r.expires_at <= least(',
      replace: 'and coalesce((r.expires_at <= greatest('
    }]
  },
  {
    name: 'swept-by-any-time',
    does: "lapses and sweeps although it has found the arbiter's clock ahead",
    breaks: ['P4', 'E2b'],
    patches: [
      {
        file: 'background/sweeper.ts',
        find: 'if (gateway.arbiterClock.aheadMs > 0) {',
        replace: 'if (gateway.arbiterClock.aheadMs < 0) {'
      },
      { file: 'gateway/shared/lapse-guard.ts', find: '    if (!this.#isClockTrusted()) return false\n', replace: '' }
    ]
  },
  {
    name: 'finders-unheard',
    does: "believes the arbiter's clock as it finds it at its start, whatever others say of it",
    breaks: ['I1', 'P4'],
    patches: [{
      file: ARBITER_CLOCK,
      find: 'const reportedMs = Math.max(aheadMs, suspectedMs)',
      replace: 'const reportedMs = Math.min(0, aheadMs, suspectedMs)'
    }]
  },
  {
    name: 'confirmed-as-it-comes',
    does: 'takes an operator\'s word for whatever time it reads next',
    breaks: ['P4'],
    patches: [{ file: ARBITER_CLOCK, find: ': trustConfirmed(confirmedMs, before)', replace: ': trustConfirmed(reading.storeMs, before)' }]
  },
  {
    name: 'set-back-unseen',
    does: 'goes on believing those who found the clock ahead when it has been set back',
    breaks: ['I9'],
    patches: [{ file: ARBITER_CLOCK, find: '    if (aheadMs > 0) return false\n', replace: '    if (aheadMs >= 0) return false\n' }]
  },
  {
    name: 'accusers-believed',
    does: "takes its own word for the arbiter's clock, whatever others say of it",
    breaks: ['E2b'],
    patches: [{ file: ARBITER_CLOCK, find: '} else if (beaten.contradicted === true) {', replace: '} else if (beaten.nowMs < 0) {' }]
  },
  {
    name: 'starts-in-the-past',
    does: 'serves from a store whose clock is behind the last time that it has seen',
    breaks: ['P4'],
    patches: [{
      file: 'store/shared/time-seen.ts',
      find: 'if (seenMs === null || nowMs >= seenMs - EARLIER_MS_MAX) return',
      replace: 'if (seenMs === null || nowMs >= 0) return'
    }]
  }
]
