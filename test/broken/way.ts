/**
 * What goes wrong where a move of a request is missing (core/protocol/way.ts): time limits that nobody keeps, and replies that come when
 * the request is over. And the rows of the fault table that each belongs to.
 */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const WAY = 'core/protocol/way.ts'

export const WAY_BREAKS: readonly Break[] = [
  {
    name: 'claims-take-their-time',
    does: 'waits for a claim for as long as the arbiter takes for it',
    breaks: ['I8', 'P6'],
    patches: [{
      file: 'gateway/execute.ts',
      find: 'request.stateDueMs = request.startedAtMs + claimWithinMs\n',
      replace: 'request.stateDueMs = request.startedAtMs + claimWithinMs * 1_000\n'
    }]
  },
  {
    name: 'late-claims-stay',
    does: 'leaves a claim that was won too late as it is',
    breaks: ['P6', 'I9'],
    patches: [{ file: WAY, find: "claimed: move('over', 'giveBack')", replace: "claimed: 'kept'" }]
  },
  {
    name: 'late-locks-stay',
    does: 'leaves a lock that was granted too late to its time',
    breaks: ['P6'],
    patches: [{ file: WAY, find: "locked: move('over', 'unlock')", replace: "locked: 'kept'" }]
  },
  {
    name: 'starters-wait-for-ever',
    does: 'lets the client that started an execution wait for as long as that takes',
    breaks: ['E1', 'I8'],
    patches: [{ file: WAY, find: "late: move('forward', 'respondInFlight')", replace: "late: 'kept'" }]
  },
  {
    name: 'sendings-take-their-time',
    does: 'keeps what waits for a connection waiting beyond `upstream.timeout`',
    breaks: ['E3'],
    patches: [{ file: WAY, find: "timeout: move('forward', 'endSending')", replace: "timeout: 'kept'" }]
  },
  {
    name: 'settles-take-their-time',
    does: 'lets everybody wait for an answer until the arbiter has replied to its settle',
    breaks: ['E6'],
    patches: [{ file: WAY, find: "timeout: move('store', 'store')", replace: "timeout: 'kept'" }]
  }
]

export const WAY_ROWS: readonly FaultRow[] = [
  {
    fault: 'database slow',
    moment: 'claim; it does not reply within `claimTimeout`',
    seen: '0',
    record: 'released, when the claim comes through',
    client: '503 + `Retry-After`; a retry executes',
    test: ['gateway/claim/store-down.test.ts', 'a claim that is slower than claimWithin gets 503'],
    breaks: 'claims-take-their-time'
  },
  {
    fault: 'database slow',
    moment: 'claim; it comes through when its client has got 503',
    seen: '0',
    record: 'released',
    client: 'retry: executes',
    test: ['gateway/claim/store-down.test.ts', 'a claim that is slower than claimWithin gets 503'],
    breaks: 'late-claims-stay'
  },
  {
    fault: 'Redis slow',
    moment: 'lock; it is granted when its client has got 503',
    seen: '0',
    record: 'none',
    client: 'retry: executes',
    test: ['gateway/claim/store-down.test.ts', 'a lock that is slower than claimWithin is given back'],
    breaks: 'late-locks-stay'
  },
  {
    fault: 'upstream slow',
    moment: 'its client waits for longer than `answerWithin`',
    seen: '1',
    record: 'claimed, then completed',
    client: '504 `in-flight`; retry: in flight, then replay',
    test: ['gateway/answer-within.test.ts', 'a starter that waited long enough gets 504 (api)'],
    breaks: 'starters-wait-for-ever'
  },
  {
    fault: 'upstream busy',
    moment: 'no connection comes free within `upstream.timeout`',
    seen: '0',
    record: 'released',
    client: '503 + `Retry-After`; a retry executes',
    test: ['gateway/forward/busy-pool.test.ts', 'a request that upstream.timeout finds in the queue is released'],
    breaks: 'sendings-take-their-time'
  },
  {
    fault: 'database hangs',
    moment: 'settle',
    seen: '1',
    record: 'claimed, then completed',
    client: 'the answer within three seconds, marked as not stored',
    test: ['gateway/settle/unsettled.test.ts', 'while the arbiter hangs the real answer comes within three seconds, marked'],
    breaks: 'settles-take-their-time'
  }
]
