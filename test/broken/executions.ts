/**
 * What goes wrong where a rule of executions, of their duplicates or of deliveries is left out (P3, P9, E0, E1, E2, E3, E4b, N7, N9),
 * and the rows of the fault table that each belongs to.
 */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

export const EXECUTION_BREAKS: readonly Break[] = [
  {
    name: 'duplicates-run-beside',
    does: 'begins an execution for each duplicate that it has in flight itself',
    breaks: ['P3'],
    patches: [{ file: 'gateway/way.ts', find: "running === undefined ? 'permitted' :", replace: "running !== null ? 'permitted' :" }]
  },
  {
    name: 'memory-without-bound',
    does: 'keeps settled answers in memory beyond the bytes that it may use for them',
    breaks: ['P3'],
    patches: [{
      file: 'gateway/execution/replay-cache.ts',
      find: 'new CacheGeneration(bytesMax / 2)',
      replace: 'new CacheGeneration(Math.max(1_000_000, bytesMax))'
    }]
  },
  {
    name: 'mismatches-in-flight',
    does: 'says in flight to another request under the key of its own execution',
    breaks: ['P9'],
    patches: [{
      file: 'gateway/apart.ts',
      find: "return decision.kind === 'won' ? { kind: 'mismatch' } : inFlight(",
      replace: 'return inFlight('
    }]
  },
  {
    name: 'half-a-body-is-one',
    does: 'takes what it has of a body for the whole of it when its client leaves',
    breaks: ['E0'],
    patches: [{
      file: 'http/shared/body.ts',
      find: "[READING].fail('gone')",
      replace: '[READING].end()'
    }]
  },
  {
    name: 'ends-with-its-starter',
    does: 'ends an execution when its client has waited for as long as it may',
    breaks: ['E1', 'E3'],
    patches: [{
      file: 'core/protocol/way.ts',
      find: "late: move('forward', 'respondInFlight')",
      replace: "late: move('forward', 'respondInFlight', 'cutOff')"
    }]
  },
  {
    name: 'renewed-too-late',
    does: 'renews a lease when all of it is used up',
    breaks: ['E2'],
    patches: [{ file: 'gateway/execution/lease-renewal.ts', find: 'RENEW_AT_SHARE = 1 / 3', replace: 'RENEW_AT_SHARE = 1' }]
  },
  {
    name: 'upstreams-take-their-time',
    does: 'waits for a consumer beyond `upstream.timeout`',
    breaks: ['E3'],
    patches: [{
      file: 'gateway/forward/upstream-time.ts',
      find: 'this.#clock.after(this.#timeoutMs, ',
      replace: 'this.#clock.after(this.#timeoutMs * 100, '
    }]
  },
  {
    name: 'connections-are-kept',
    does: 'uses a connection again where each request has one of its own',
    breaks: ['E4b'],
    patches: [
      { file: 'upstream/sender.ts', find: 'reset: upstream.keepAliveMs === 0', replace: 'reset: false' },
      {
        file: 'upstream/pools.ts',
        find: 'keepAliveTimeout: Math.max(KEEP_ALIVE_MS_MIN, upstream.keepAliveMs)',
        replace: 'keepAliveTimeout: 4_000'
      },
      {
        file: 'upstream/pools.ts',
        find: 'keepAliveMaxTimeout: Math.max(KEEP_ALIVE_MS_MIN, upstream.keepAliveMs)',
        replace: 'keepAliveMaxTimeout: 4_000'
      }
    ]
  },
  {
    name: 'bodies-stay-behind',
    does: 'delivers messages without their bodies',
    breaks: ['N7'],
    patches: [{ file: 'gateway/inbox/deliver.ts', find: 'body: request.body,', replace: "body: Buffer.from('')," }]
  },
  {
    name: 'targets-are-shortened',
    does: 'accepts messages without the query of their target',
    breaks: ['N7'],
    patches: [{
      file: 'gateway/inbox/new-message.ts',
      find: 'target: target?.path ?? path,',
      replace: "target: (target?.path ?? path).split('?')[0] ?? path,"
    }]
  },
  {
    name: 'the-dead-keep-theirs',
    does: 'takes nothing back of what dead workers had',
    breaks: ['N9'],
    patches: [{
      file: 'background/deliverer.ts',
      find: 'if (!this.#works || !this.#gateway.workerLapseGuard.mayLapse()) return false',
      replace: 'if (this.#works || !this.#works) return false'
    }]
  }
]

export const EXECUTION_ROWS: readonly FaultRow[] = [
  {
    fault: 'duplicates at one gateway at once',
    moment: 'before the first one has claimed',
    seen: '1',
    record: 'one claim',
    client: 'one executes; the others wait for its answer',
    test: ['gateway/authorise/record-counts.test.ts', 'retries of one record at the bound that come at once are one execution'],
    breaks: 'duplicates-run-beside'
  },
  {
    fault: 'settled answers fill `limits.recentBytes`',
    moment: 'a retry',
    seen: '1',
    record: 'completed',
    client: 'replay, from the store',
    test: ['gateway/body/limits.test.ts', 'settled answers are kept in memory up to recentBytes'],
    breaks: 'memory-without-bound'
  },
  {
    fault: 'another request under a key',
    moment: 'during the execution of the first one',
    seen: '1, of the first one',
    record: 'claimed',
    client: '422 `key-reused`, before it is 409',
    test: ['gateway/claim/in-flight.test.ts', 'another payload under a key in flight is 422 before it is 409'],
    breaks: 'mismatches-in-flight'
  },
  {
    fault: 'client gone',
    moment: 'during its upload',
    seen: '0',
    record: 'none',
    client: 'retry: executes',
    test: ['gateway/client-gone.test.ts', 'a client that goes during its upload leaves no claim'],
    breaks: 'half-a-body-is-one'
  },
  {
    fault: 'execution that takes longer than `answerWithin`',
    moment: 'its client has got 504 `in-flight`',
    seen: '1',
    record: 'claimed, then completed',
    client: 'retry: in flight, then replay',
    test: ['gateway/answer-within.test.ts', 'a starter that waited long enough gets 504 (api)'],
    breaks: 'ends-with-its-starter'
  },
  {
    fault: 'request queued for longer than its lease',
    moment: 'between the claim and the send',
    seen: '1',
    record: 'claimed: its lease is renewed meanwhile',
    client: 'the answer',
    test: ['gateway/forward/busy-pool.test.ts', 'a lease that is renewed while the request is queued lets it go out'],
    breaks: 'renewed-too-late'
  },
  {
    fault: 'inbox: consumer silent',
    moment: 'until `upstream.timeout`',
    seen: '1, then 1 as the next delivery',
    record: 'message waits again; held where the route says `hold`',
    client: 'has its 202',
    test: ['inbox/deliverer.test.ts', 'no answer within upstream.timeout: the delivery is over'],
    breaks: 'upstreams-take-their-time'
  },
  {
    fault: 'upstream answers one request twice, with `keepAlive: 0s`',
    moment: 'the next request is on its way',
    seen: '1',
    record: 'completed, with its own answer',
    client: 'the answer to its own request',
    test: ['gateway/forward/extra-answer.test.ts', 'where every request has a connection of its own (keepAlive: 0s)'],
    breaks: 'connections-are-kept'
  },
  {
    fault: 'inbox: any message',
    moment: 'delivery',
    seen: '1, with the bytes that were accepted',
    record: 'delivered',
    client: 'has its 202',
    test: ['inbox/deliverer.test.ts', 'a message is delivered as it was accepted'],
    breaks: 'bodies-stay-behind'
  },
  {
    fault: 'inbox: any message',
    moment: 'acceptance',
    seen: '1, with the target and the fields that came',
    record: 'message waits',
    client: '202',
    test: ['gateway/inbox/accept.test.ts', 'what the consumer will get is what came'],
    breaks: 'targets-are-shortened'
  },
  {
    fault: 'inbox: worker dead',
    moment: 'its lease is over',
    seen: '≤ 1, then 1 as the next delivery',
    record: 'message waits again; held where the route says `hold`',
    client: 'has its 202',
    test: ['inbox/worker-leases.test.ts', 'what a killed process was delivering is delivered by another one'],
    breaks: 'the-dead-keep-theirs'
  }
]
