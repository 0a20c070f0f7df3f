/** The fault table's rows of gateways whose policies differ, beside each other or over a reload, and the breaks that they name. */
/* eslint-disable no-template-curly-in-string -- texts of sources, which have templates in them */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const CLAIMING = 'gateway/claim/claim.ts'
const [ACCEPT, ARRIVALS] = ['store/postgres/inbox-accept.ts', 'store/postgres/inbox-arrivals.ts']

export const POLICY_ROWS: readonly FaultRow[] = [
  {
    fault: "the fingerprint's policy changes",
    moment: 'between a release and its retry',
    seen: 'the retry, once, as the next attempt',
    record: 'released, then claimed with a fingerprint of the new policy',
    client: 'the retry executes; another request gets 422',
    test: ['gateway/fingerprint/fingerprint-changes.test.ts', 'a released key is free under another fingerprint policy too'],
    breaks: 'own-policy-only'
  },
  {
    fault: 'a route changes from `inbox` to `enforce`',
    moment: 'what it has accepted comes again',
    seen: 'as the message is delivered',
    record: 'none; the message stands',
    client: 'the same 202',
    test: ['gateway/inbox/mode-changes.test.ts', 'what the inbox has accepted is not executed under mode enforce'],
    breaks: 'claims-pass-messages-by'
  },
  {
    fault: 'a route changes from `enforce` to `inbox`',
    moment: 'what it has executed, with an outcome that is not known, comes again',
    seen: '1',
    record: 'indeterminate',
    client: '`outcome-unknown`, with profile `api`',
    test: ['gateway/inbox/mode-changes.test.ts', 'what was executed is not delivered again where `unknown: retry` is meant of deliveries'],
    breaks: 'deliveries-speak-of-executions'
  },
  {
    fault: 'a route changes from `inbox` to `enforce` and back',
    moment: 'between two deliveries of a message',
    seen: 'no number of an attempt twice',
    record: 'none; the message stands',
    client: 'the same 202',
    test: ['gateway/inbox/mode-changes.test.ts', 'from inbox to enforce and back: no number of an attempt comes twice to the consumer'],
    breaks: 'claims-pass-messages-by'
  },
  {
    fault: 'a route changes from `enforce` to `inbox`',
    moment: 'another gateway, which has the old mode, is about to claim',
    seen: 'once, by the one or as the message',
    record: 'claimed and settled as accepted, while the other one lives',
    client: '202',
    test: ['store/postgres/registry.test.ts', 'beside a living gateway that executes its route a message is accepted under a claim only'],
    breaks: 'accepted-beside-executions'
  },
  {
    fault: 'a route changes from `enforce` to `inbox`',
    moment: 'an acceptance under a claim comes late, behind the end of its lease; `unknown: retry`',
    seen: 'once, by whoever has taken the key',
    record: 'of the one who has taken it; no message',
    client: 'the answer of the other one; 503 if there is none yet',
    test: [
      'store/postgres/registry.test.ts',
      'an acceptance under a claim that is being lapsed comes to nothing, and one that is under way is lapsed by nobody'
    ],
    breaks: 'accepted-under-any-claim'
  },
  {
    fault: 'a route changes from `inbox` to `enforce`',
    moment: 'the commit of an acceptance is on its way at another gateway',
    seen: 'as the message is delivered',
    record: 'none: nothing is claimed before that commit is over',
    client: '202, or 503 and nothing was sent',
    test: [
      'store/postgres/registry.test.ts',
      'a registration waits for the acceptances under way, and is not made where they take too long (named'
    ],
    breaks: 'registered-without-a-barrier'
  },
  {
    fault: 'a route changes from `inbox` to `enforce`',
    moment: 'the other gateways cannot be told',
    seen: '0',
    record: 'none',
    client: '503 + `Retry-After`',
    test: ['gateway/forward/registration.test.ts', 'nothing is claimed before the registration of its route is acknowledged'],
    breaks: 'claims-unannounced'
  },
  {
    fault: 'a gateway stalled for longer than others reckon with it',
    moment: 'a claim is on its way',
    seen: '0',
    record: 'released',
    client: '503, nothing was sent',
    test: [
      'gateway/forward/registration.test.ts',
      'a claim from before a silence after which others need not reckon with it is given back unsent'
    ],
    breaks: 'registered-for-ever'
  },
  {
    fault: 'gateways with another scope or key source beside each other',
    moment: 'a key comes to both',
    seen: 'perhaps by each: no record can keep them apart',
    record: 'two',
    client: 'as each says; the log of both warns, once for each difference',
    test: ['gateway/forward/registration.test.ts', 'a difference is told once'],
    breaks: 'differences-in-silence'
  },
  {
    fault: 'inbox: batch with an item that is being executed',
    moment: 'its claim comes between the look and the insert',
    seen: 'as the execution says',
    record: 'none of the batch',
    client: '422 `key-reused`',
    test: ['store/postgres/registry.test.ts', 'of a batch none is taken in, and none called so'],
    breaks: 'batches-with-gaps'
  },
  {
    fault: 'inbox: poison message, with `onDead: stop-group`',
    moment: '`deadRetention` is over, and no operator has looked',
    seen: 'nothing more of its group',
    record: 'message dead or held; its group waits for an operator',
    client: 'has its 202; 503 for new ones once the inbox is full',
    test: ['store/sqlite/inbox.test.ts', 'one that stops its group while it is dead stops it until an operator says so'],
    breaks: 'operators-have-a-deadline'
  }
]

export const POLICY_BREAKS: readonly Break[] = [
  {
    name: 'deliveries-speak-of-executions',
    does: 'delivers what was executed with an outcome that is not known, since deliveries are repeated',
    breaks: ['N5'],
    patches: [{
      file: 'core/protocol/transitions.ts',
      find: "return unknown === 'retry' && !(inboxFor === 'all' && profile === 'api')",
      replace: "return unknown === 'retry' || (inboxFor === 'all' && profile === 'never')"
    }]
  },
  {
    name: 'own-policy-only',
    does: 'takes only what was released under the fingerprint policy that it has itself',
    breaks: ['P9'],
    patches: [{
      file: CLAIMING,
      find: 'attempt: row.attempt, fingerprint: row.fingerprint }',
      replace: 'attempt: row.attempt, fingerprint: execution.keyed.claim.fingerprint }'
    }]
  },
  {
    name: 'claims-pass-messages-by',
    does: 'claims a key without a look at what stands in the inbox',
    breaks: ['N5', 'N2'],
    patches: [
      { file: 'store/shared/record-table.ts', find: '    this.#messageOf = messageOf\n', replace: '    this.#messageOf = () => null\n' },
      { file: 'store/postgres/claims.ts', find: "where not ${isAccepted(schema, 'w.id')}", replace: 'where true' },
      { file: 'store/postgres/claims.ts', find: "and not ${isAccepted(schema, 'r.id')}", replace: 'and true' }
    ]
  },
  {
    name: 'accepted-beside-executions',
    does: 'accepts without a claim though a living gateway executes what comes for the route',
    breaks: ['P11', 'N5'],
    patches: [{ file: ARRIVALS, find: ' and ${routeOfTarget(\'o.route\')} <> all (${contendedRoutes(schema, routes)})', replace: '' }]
  },
  {
    name: 'accepted-under-any-claim',
    does: 'accepts under a claim without a look at whether it stands',
    breaks: ['P11', 'N5'],
    patches: [
      {
        file: ARRIVALS,
        find: 'then exists (select from claims c where c.id = o.claim_id and c.owner = o.claim_owner and c.attempt = o.claim)',
        replace: 'then true'
      },
      { file: 'store/memory/inbox.ts', find: ': !this.#records.isClaimed({ id: claimedId(message), ...underClaim })', replace: ': false' }
    ]
  },
  {
    name: 'batches-with-gaps',
    does: 'calls a batch accepted of which an item was left out',
    breaks: ['N1'],
    patches: [
      { file: ARRIVALS, find: ' where (select bool_and(o.enters) from arrived o)\n', replace: ' where a.enters\n' },
      {
        file: ACCEPT,
        find: 'if (await insertAll(session, numbered(missing, number), groups) === missing.length) return results',
        replace: 'if (await insertAll(session, numbered(missing, number), groups) <= missing.length) return results'
      }
    ]
  },
  {
    name: 'registered-without-a-barrier',
    does: 'registers what it executes without waiting for the acceptances under way',
    breaks: ['P11', 'N5'],
    patches: [{ file: 'store/postgres/registry.ts', find: '  if (barrierMs !== null) await session.run(BARRIER, [])\n', replace: '' }]
  },
  {
    name: 'claims-unannounced',
    does: 'claims and sends before the others know that it executes',
    breaks: ['P11', 'N5'],
    patches: [{
      file: 'gateway/shared/registration.ts',
      find: "if (this.#deps().registry.name === 'none') return NONE_NEEDED\n    this",
      replace: 'if (this.#number > 0) return NONE_NEEDED\n    this'
    }]
  },
  {
    name: 'registered-for-ever',
    does: 'believes that the others reckon with it, however long it was silent',
    breaks: ['P11', 'N5'],
    patches: [{
      file: 'gateway/shared/registration.ts',
      find: 'if (sinceMs(this.#deps().clock, this.#lastHeartbeatAt) >= BELIEVED_MS) this.#invalidate()',
      replace: 'if (sinceMs(this.#deps().clock, this.#lastHeartbeatAt) < 0) this.#invalidate()'
    }]
  },
  {
    name: 'differences-in-silence',
    does: 'says nothing of a gateway that serves a route otherwise',
    breaks: ['I1'],
    patches: [{
      file: 'background/registration.ts',
      find: 'if (logs && !logged.has(line)) logDifference',
      replace: 'if (!logs && !logged.has(line)) logDifference'
    }]
  },
  {
    name: 'operators-have-a-deadline',
    does: 'lets a stopped group go on when the retention of what stops it is over',
    breaks: ['N4'],
    patches: [
      {
        file: 'core/inbox/transitions.ts',
        find: 'expiresAtMs: stopsItsGroup(ended) ? null : nowMs + keepMs',
        replace: 'expiresAtMs: nowMs + keepMs'
      },
      { file: 'store/memory/inbox.ts', find: '    if (violated !== null) throw new TypeError(violated)\n', replace: '' },
      {
        file: 'store/sqlite/inbox-rows.ts',
        find: "  return blocks === 1 && group !== null && (state === 'dead' || state === 'held')\n",
        replace: "  return blocks === 1 && group !== null && state === 'delivered'\n"
      },
      { file: 'store/sqlite/inbox-table.ts', find: '    this.#prepare(putOff).run(nowMs, this.#over(nowMs))\n', replace: '' },
      { file: 'store/postgres/inbox-rows.ts', find: "${table}.state in ('dead', 'held'))`", replace: "${table}.state = 'delivered')`" }
    ]
  }
]
