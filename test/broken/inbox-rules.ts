/** The fault table's rows of what an inbox lets in, how fast it delivers and whom it tells, and the breaks that they name. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const DELIVERY = 'core/inbox/delivery.ts'
const PACING = 'core/inbox/pacing.ts'
const SIGNATURE = 'core/headers/signature.ts'
const SPLITTING = 'gateway/inbox/split.ts'

const SENDER = 'has its 202'
const NOT_LET_IN = '401 `signature-invalid`'
const PATIENCE = 'a consumer that was down is found again within a second, and begins with one, then two more'

export const INBOX_RULE_ROWS: readonly FaultRow[] = [
  {
    fault: 'inbox: a message that kills its worker',
    moment: 'every delivery, until its tries are over',
    seen: '`maxAttempts` times at most',
    record: 'message dead (`ATTEMPTS_SPENT WORKER_LOST`)',
    client: SENDER,
    test: [
      'inbox/worker-leases.test.ts',
      'a message whose delivery kills its worker every time ends dead when its tries are over, and kills nobody more'
    ],
    breaks: 'kills-for-ever'
  },
  {
    fault: 'inbox: consumer down',
    moment: 'while messages wait for it',
    seen: 'once a second by each process',
    record: 'messages wait',
    client: SENDER,
    test: ['inbox/deliverer.test.ts', PATIENCE],
    breaks: 'never-slower'
  },
  {
    fault: 'inbox: consumer down',
    moment: 'it is back, and much has gathered',
    seen: 'by one at once, then two, then three',
    record: 'messages delivered',
    client: SENDER,
    test: ['inbox/deliverer.test.ts', PATIENCE],
    breaks: 'all-at-once-again'
  },
  {
    fault: 'inbox: consumer asks for a pause',
    moment: '503 or 429 with `Retry-After`',
    seen: 'nothing until then',
    record: 'messages wait',
    client: SENDER,
    test: ['inbox/deliverer.test.ts', 'Retry-After of a 503 pauses the whole route until then, and no other one'],
    breaks: 'retry-after-unheard'
  },
  {
    fault: 'forged request',
    moment: 'any, with `verify`',
    seen: '0',
    record: 'none',
    client: NOT_LET_IN,
    test: ['core/headers/signature.test.ts', 'stripe: not for another body, and not a second too early or too late'],
    breaks: 'any-signature'
  },
  {
    fault: 'recorded request, sent again later',
    moment: 'any, with `verify`',
    seen: '0',
    record: 'none',
    client: NOT_LET_IN,
    test: ['core/headers/signature.test.ts', 'standard-webhooks: not for another body, and not a second too early or too late'],
    breaks: 'signatures-for-ever'
  },
  {
    fault: "a sender's secret is changing",
    moment: 'any, with `previousSecret`',
    seen: '1',
    record: 'as of any request',
    client: 'served under either secret',
    test: ['core/headers/signature.test.ts', 'standard-webhooks: what the sender\'s library signs is good, under either secret'],
    breaks: 'previous-secret-unknown'
  },
  {
    fault: 'inbox: poisoned item in a batch',
    moment: 'acceptance, with `batch: split`',
    seen: '0',
    record: 'none of the batch',
    client: '400 that names the item',
    test: ['gateway/inbox/signed-and-split.test.ts', 'SQS: one event without an identity, and none is accepted'],
    breaks: 'poisoned-items-left-out'
  },
  {
    fault: 'inbox: item of a batch comes again, with others',
    moment: 'acceptance, with `batch: split`',
    seen: '1',
    record: 'one message for each item',
    client: '202',
    test: ['gateway/inbox/signed-and-split.test.ts', 'CloudEvents: every event of a batch is a message, under the key that it has alone'],
    breaks: 'identity-of-the-batch'
  },
  {
    fault: "inbox: somebody else asks for a message's state",
    moment: 'status resource',
    seen: 'as the message is delivered',
    record: 'unchanged',
    client: '404 `no-message`, as if there were none',
    test: ['http/endpoints/messages.test.ts', 'to anybody else it is as if it were not there'],
    breaks: 'told-to-anybody'
  }
]

export const INBOX_RULE_BREAKS: readonly Break[] = [
  {
    name: 'never-slower',
    does: 'asks a consumer that is down by as many at once as one that is well',
    breaks: ['stampede'],
    patches: [{
      file: PACING,
      find: 'return Math.max(1, Math.floor(limit / 2))',
      replace: 'return Math.max(1, Math.floor(limit))'
    }]
  },
  {
    name: 'kills-for-ever',
    does: 'sends a message on and on that nobody who sends it survives',
    breaks: ['attempts'],
    patches: [{
      file: DELIVERY,
      find: 'tries > inbox.attemptsMax && lastError === WORKER_LOST',
      replace: 'tries > inbox.attemptsMax && lastError === null'
    }]
  },
  {
    name: 'all-at-once-again',
    does: 'gives a consumer that is back everything at once after its first answer',
    breaks: ['stampede'],
    patches: [{ file: PACING, find: 'limit: grows ? limit + 1 : limit', replace: 'limit: grows ? inbox.concurrency : limit' }]
  },
  {
    name: 'retry-after-unheard',
    does: 'asks again before the time that the consumer has named',
    breaks: ['stampede'],
    patches: [{
      file: PACING,
      find: 'answer.status === UNAVAILABLE ? retryAfterMs(answer, nowMs) : null',
      replace: 'answer.status === UNAVAILABLE ? Math.min(0, retryAfterMs(answer, nowMs) ?? 0) : null'
    }]
  },
  {
    name: 'any-signature',
    does: 'takes any signature of the right length for good',
    breaks: ['verify'],
    patches: [{
      file: SIGNATURE,
      find: 'signature.length === expected.length && timingSafeEqual(signature, expected)',
      replace: 'signature.length === expected.length || timingSafeEqual(signature, expected)'
    }]
  },
  {
    name: 'signatures-for-ever',
    does: 'takes a good signature of any time',
    breaks: ['verify'],
    patches: [{ file: SIGNATURE, find: 'const untimely = content.time === null ?', replace: 'const untimely = content.time !== -1 ?' }]
  },
  {
    name: 'previous-secret-unknown',
    does: 'knows the current secret alone',
    breaks: ['verify'],
    patches: [{
      file: SIGNATURE,
      find: 'const index = policy.secrets.findIndex(',
      replace: 'const index = policy.secrets.slice(0, 1).findIndex('
    }]
  },
  {
    name: 'poisoned-items-left-out',
    does: 'leaves out an item without a key, and accepts the others',
    breaks: ['P6'],
    patches: [{
      file: SPLITTING,
      find: "if (found.kind !== 'key') return refused(keyless(found, index))",
      replace:
        "if (found.kind !== 'key' && items.length === 0) return refused(keyless(found, index))\n    if (found.kind !== 'key') continue"
    }]
  },
  {
    name: 'identity-of-the-batch',
    does: 'gives an item the identity of the batch that it came in',
    breaks: ['I1'],
    patches: [{
      file: 'gateway/identify.ts',
      find: 'context.ids.identify(route, scope, message.key, context.isInMemory) ?? first',
      replace: 'context.ids.identify(route, scope, keyed.name + message.key, context.isInMemory) ?? first'
    }]
  },
  {
    name: 'told-to-anybody',
    does: 'tells how a message stands to whoever knows its id',
    breaks: ['scope'],
    patches: [{
      file: 'gateway/inbox/find-message.ts',
      find: 'if (!isOwner(context, caller, message.scopeHash)) return NONE',
      replace: 'if (message.scopeHash.length === 0 && !isOwner(context, caller, message.scopeHash)) return NONE'
    }]
  }
]
