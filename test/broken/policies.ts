/** The fault table's rows of gateways whose policies differ, beside each other or over a reload, and the breaks that they name. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const CLAIMING = 'gateway/claiming.ts'

export const POLICY_ROWS: readonly FaultRow[] = [
  {
    fault: "the fingerprint's policy changes",
    moment: 'between a release and its retry',
    seen: 'the retry, once, as the next attempt',
    record: 'released, then claimed with a fingerprint of the new policy',
    client: 'the retry executes; another request gets 422',
    test: ['gateway/fingerprint-changes.test.ts', 'a released key is free under another fingerprint policy too'],
    breaks: 'own-policy-only'
  }
]

export const POLICY_BREAKS: readonly Break[] = [
  {
    name: 'own-policy-only',
    does: 'takes only what was released under the fingerprint policy that it has itself',
    breaks: ['P9'],
    patches: [{ file: CLAIMING, find: 'attempt: row.attempt, fingerprint: row.fingerprint }', replace: 'attempt: row.attempt, fingerprint: execution.visit.claim.fingerprint }' }]
  }
]
