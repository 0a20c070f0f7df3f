/** The fault table's rows of requests that want to be taken for others, and the breaks that they name. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

export const FIELD_ROWS: readonly FaultRow[] = [
  {
    fault: 'a client lists in `Connection` what decides on its request',
    moment: 'any, guarded or passed through',
    seen: 'the field as it was read',
    record: 'as of any request',
    client: 'as if it were not listed; 400 for the key, usual credentials and framing',
    test: ['http/deciding-fields.test.ts', 'stripe-account arrives as it was read: guarded'],
    breaks: 'listed-is-gone'
  },
  {
    fault: 'a client sends a look-alike of what decides on its request',
    moment: 'any, guarded or passed through',
    seen: 'the field as it was read, and no other spelling',
    record: 'as of any request',
    client: 'as if it were not there',
    test: ['http/deciding-fields.test.ts', 'x-auth-token arrives as it was read: passed through'],
    breaks: 'look-alikes-pass'
  },
  {
    fault: 'somebody who cannot sign knows a key',
    moment: 'a retry, with `verify`',
    seen: 'nothing of it',
    record: 'unchanged',
    client: '401 `signature-invalid`, and no stored answer',
    test: ['gateway/authorise/signed.test.ts', "a signature that is another's: nothing is sent"],
    breaks: 'answers-for-everybody'
  }
]

export const FIELD_BREAKS: readonly Break[] = [
  {
    name: 'listed-is-gone',
    does: 'removes whatever Connection lists',
    breaks: ['fields'],
    patches: [{
      file: 'core/forward/forwarding.ts',
      find: 'if (listed.has(lower) && !rules.kept.has(lower)) continue',
      replace: 'if (listed.has(lower)) continue'
    }]
  },
  {
    name: 'look-alikes-pass',
    does: 'passes a field on that servers fold into another',
    breaks: ['fields'],
    patches: [{
      file: 'core/forward/deciding.ts',
      find: 'return reserved.has(plain) && !kept.has(lower)',
      replace: 'return reserved.has(lower) && !kept.has(lower)'
    }]
  },
  {
    name: 'answers-for-everybody',
    does: 'counts bad signatures, and goes on',
    breaks: ['verify'],
    patches: [{
      file: 'gateway/authorise/authorise.ts',
      find: "return verified.kind === 'good' ? null :",
      replace: "return verified.kind === 'good' || verified.detail !== '' ? null :"
    }]
  }
]
