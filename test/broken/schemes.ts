/**
 * What goes wrong where a switch of schemes, or the rules that tell callers apart, leave something out
 * (core/record/schemes.ts), and the rows of the fault table that each belongs to.
 */
/* eslint-disable no-template-curly-in-string -- texts of sources, which have templates in them */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const [LEDGER, APART, CLAIMS] = ['store/shared/record-table.ts', 'gateway/apart.ts', 'store/postgres/claims.ts']
const [STORY, RACES] = ['gateway/fingerprint/schemes.test.ts', 'store/postgres/races.test.ts']

/** Whoever claims by the next scheme asks in the claim's own statement; without it. */
const EARLIER_UNTESTED = [
  {
    file: LEDGER,
    find: 'return (earlier !== null && !this.#isPast(earlier, nowMs)) || this.#messageOf(earlierId, nowMs) !== null',
    replace: 'return earlier === undefined'
  },
  {
    file: LEDGER,
    find: '    this.#table.remove(earlierId)\n',
    replace: '    if (this.#isPast(this.#table.find(earlierId), nowMs)) this.#table.remove(earlierId)\n'
  }
]

/** Caught by the simulation. */
export const SCHEME_BREAKS: readonly Break[] = [
  {
    name: 'any-scheme-claims',
    does: 'lets claims in by a scheme that claims no more',
    breaks: ['P12', 'I13', 'I1', 'I5'],
    patches: [
      { file: LEDGER, find: '    if (scheme !== this.#table.scheme()) return true\n', replace: '' },
      {
        file: CLAIMS,
        find: "const claimsInTime = (schema: string) => claimsNow(schema, 'w.scheme')",
        replace: "const claimsInTime = (_schema: string) => 'true'"
      }
    ]
  },
  {
    name: 'earlier-ids-unasked',
    does: 'claims whatever stands under the earlier id of the request',
    breaks: ['P12', 'I13', 'I1'],
    patches: [
      ...EARLIER_UNTESTED,
      { file: CLAIMS, find: "${isFreeBeside(schema, 'w.earlier_id')} and not ${isAccepted(schema, 'w.earlier_id')}", replace: 'true' }
    ]
  },
  {
    name: 'past-lives-on',
    does: 'begins a new life of what is past by a scheme that claims no more',
    breaks: ['P12', 'I13', 'I5'],
    patches: [
      {
        file: LEDGER,
        find: '(claims || (!this.#isPast(before, nowMs) && !this.#table.isLost(claim.scheme))) && this.#write',
        replace: 'this.#write'
      },
      { file: CLAIMS, find: " and ${claimsNow(schema, 'w.scheme')})\n                  or (", replace: ')\n          or (' }
    ]
  },
  {
    name: 'any-scheme-accepts',
    does: 'accepts messages by a scheme that claims no more',
    breaks: ['P12', 'I13', 'N5'],
    patches: [
      {
        file: 'store/memory/inbox.ts',
        find: '    if (this.#records !== null && scheme !== this.#records.scheme) return true\n',
        replace: ''
      },
      { file: 'store/postgres/inbox-arrivals.ts', find: "`${claimsNow(schema, 'o.scheme')} and (select", replace: '`(select' }
    ]
  },
  {
    name: 'moved-for-good',
    does: 'refuses a request that has another id by now',
    breaks: ['P12', 'trouble'],
    patches: [
      { file: APART, find: 'if (await inTime(context, identifyAgain(context, request)) !== true) break', replace: 'break' },
      {
        file: APART,
        find: 'return await inTime(context, identifyAgain(context, request)) === true ? answerIdentified(context, request) : ',
        replace: 'return '
      }
    ]
  },
  {
    name: 'schemes-are-waited-for',
    does: 'waits for the word which scheme claims for as long as the database takes for it',
    breaks: ['P12', 'I8'],
    patches: [
      {
        file: APART,
        find: 'if (await inTime(context, identifyAgain(context, request)) !== true) break',
        replace: 'if (await identifyAgain(context, request).catch(() => false) !== true) break'
      },
      {
        file: APART,
        find: 'return await inTime(context, identifyAgain(context, request)) === true',
        replace: 'return await identifyAgain(context, request).catch(() => false) === true'
      },
      {
        file: 'gateway/shared/ids.ts',
        find: 'this.#deps().records.schemes()',
        replace: 'new Promise(resolve => { (this.#deps() as Deps).clock.after(this.#schemes === null ? 0 : 20_000, resolve) }).then(async () => this.#deps().records.schemes())'
      }
    ]
  },
  {
    name: 'hosts-are-one',
    does: 'takes two hosts of an upstream that is told them for one application',
    breaks: ['I5', 'I13'],
    patches: [{
      file: 'gateway/scope/scope.ts',
      find: "rules === 2 && host === 'preserve' ?",
      replace: "rules === 2 && host === 'preserved' ?"
    }]
  },
  {
    name: 'tenants-are-one',
    does: 'takes one credential for one caller, whichever tenant he asks for',
    breaks: ['I5', 'I6'],
    patches: [{
      file: 'core/scope/caller-scope.ts',
      find: "    if (carrier.class === 'selector') selecting.push({ name, value, ...way })\n",
      replace: "    if (carrier.class === 'selector') continue\n"
    }]
  },
  {
    name: 'lost-and-forgotten',
    does: 'executes what may have been executed under a secret that is lost',
    breaks: ['I13'],
    patches: [{ file: APART, find: 'const lost = context.ids.lost === null ||', replace: 'const lost = context.ids.lost !== -1 ||' }]
  }
]

/** Caught by tests of their own: no schedule comes to what they do, or nobody there drops, or asks how a message stands. */
export const SCHEME_STORE_BREAKS: readonly Break[] = [
  {
    name: 'earlier-ids-looked-at',
    does: 'looks at the earlier id before it claims, and not in the statement that does',
    breaks: ['P12', 'I13', 'P5'],
    patches: [{
      file: CLAIMS,
      find: 'const rows = await session.run<{ id: string }>(hasEarlier(claims) ? CLAIM_INSERT_BESIDES : CLAIM_INSERT,',
      replace: `const beside = new Set((await lookAt(session, claims.flatMap(({ earlierId }) => earlierId ?? []))).filter(({ past }) => !past).map(({ id }) => id.toString('hex')))
  claims = claims.filter(({ earlierId }) => earlierId === null || !beside.has(earlierId.toString('hex')))
  const rows = await session.run<{ id: string }>(CLAIM_INSERT,`
    }]
  },
  {
    name: 'past-stays-beside',
    does: 'leaves what is past under the earlier id of what it claims',
    breaks: ['I13'],
    patches: [{ file: LEDGER, find: '    if (before === null) this.#goPast(claim, nowMs)\n', replace: '' }]
  },
  {
    name: 'marks-have-one-id',
    does: 'lets an event through that is marked under its earlier id',
    breaks: ['D1'],
    patches: [{ file: 'store/memory/marks.ts', find: 'this.#stands(nameOf(earlierId))))', replace: 'nameOf(earlierId) === nameOf(id)))' }]
  },
  {
    name: 'owners-by-the-first-rules',
    does: 'tells how a message stands to whoever the first rules take for its sender',
    breaks: ['I5'],
    patches: [
      {
        file: 'gateway/shared/ids.ts',
        find: "name: id.toString('base64url'), scope, key,",
        replace: "name: id.toString('base64url'), scope: scopeByRules(1) ?? scope, key,"
      },
      {
        file: 'gateway/inbox/find-message.ts',
        find: 'caller.byRules(rules)?.scope',
        replace: '(caller.byRules(1) ?? caller.byRules(rules))?.scope'
      }
    ]
  },
  {
    name: 'owners-of-before-forgotten',
    does: 'knows the sender of a message by the scheme that claims alone',
    breaks: ['I5'],
    patches: [{
      file: 'gateway/shared/ids.ts',
      find: 'return earlier === null ? [current] : [current, earlier]',
      replace: 'return earlier === null ? [current] : [current]'
    }]
  }
]

const SWITCHED = '`onceway ids upgrade` while gateways run'

export const SCHEME_ROWS: readonly FaultRow[] = [
  {
    fault: SWITCHED,
    moment: 'a gateway has not heard of it, and a new key comes to it',
    seen: '1',
    record: 'one, under an id of the new scheme',
    client: 'as if it had heard of it',
    test: [STORY, 'behind the switch a new key has an id of the new scheme, which a gateway that had not heard of it makes as well'],
    breaks: 'any-scheme-claims'
  },
  {
    fault: SWITCHED,
    moment: 'what was executed before it comes again',
    seen: '1',
    record: 'keeps its id until it ends',
    client: 'replay',
    test: [STORY, 'what was executed before the switch is replayed behind it, by whoever has heard of it or not'],
    breaks: 'earlier-ids-unasked'
  },
  {
    fault: SWITCHED,
    moment: 'a claim is on its way, and what was claimed under the other id commits before the switch does',
    seen: '1',
    record: 'one',
    client: 'in flight, then replay',
    test: [RACES, 'a claim by the next scheme that waits for the switch sees what was claimed before it'],
    breaks: 'earlier-ids-looked-at'
  },
  {
    fault: SWITCHED,
    moment:
      "the record is past; a gateway that has not heard of it is asked, with another caller's key that the first rules take for the same",
    seen: '1 for each caller',
    record: 'new ones, under ids of the new scheme',
    client: 'his own answer',
    test: [STORY, 'what is past begins no new life by the scheme before, at a gateway that has not heard of the switch either'],
    breaks: 'past-lives-on'
  },
  {
    fault: SWITCHED,
    moment: 'the record is past, and is claimed under its new id',
    seen: '1 per life',
    record: 'a new life under the new id; nothing is left under the other',
    client: 'executes',
    test: ['store/memory/records.test.ts', 'what is past there does not, and is gone with the claim'],
    breaks: 'past-stays-beside'
  },
  {
    fault: SWITCHED,
    moment: 'a gateway that has not heard of it accepts a message',
    seen: 'as the message is delivered',
    record: 'one message, under an id of the new scheme',
    client: '202',
    test: ['store/memory/inbox.test.ts', 'a message by a scheme that does not claim yet, or no more, has moved, alone or among several'],
    breaks: 'any-scheme-accepts'
  },
  {
    fault: SWITCHED,
    moment: 'an event that went through before it comes again (mode drop)',
    seen: '1',
    record: 'its mark stands until its window is over',
    client: 'duplicate',
    test: [STORY, 'an event that went through before the switch is a duplicate behind it'],
    breaks: 'marks-have-one-id'
  },
  {
    fault: SWITCHED,
    moment: 'the store says that a request has another id by now',
    seen: '1',
    record: 'one',
    client: 'as any request: it is identified anew',
    test: [STORY, 'what was executed before the switch is replayed behind it, by whoever has heard of it or not'],
    breaks: 'moved-for-good'
  },
  {
    fault: SWITCHED,
    moment: 'the database does not say in time which scheme claims',
    seen: '0',
    record: 'unchanged',
    client: '503 + `Retry-After` within `claimTimeout`',
    test: [STORY, 'which scheme claims is waited for no longer than a claim'],
    breaks: 'schemes-are-waited-for'
  },
  {
    fault: SWITCHED,
    moment: "a message's sender asks for its state",
    seen: 'as the message is delivered',
    record: 'unchanged',
    client: 'told, by the scheme that it was accepted under',
    test: ['gateway/scope/scope-rules.test.ts', "a message stays its sender's when the rules change, in either direction"],
    breaks: 'owners-of-before-forgotten'
  },
  {
    fault: 'callers whom the first rules take for one',
    moment: "one asks how the other's message stands, accepted by the second rules",
    seen: 'as the message is delivered',
    record: 'unchanged',
    client: '404 `no-message`, as if there were none',
    test: [STORY, 'behind the switch a message is told to its own sender, and to nobody whom the rules before took for him'],
    breaks: 'owners-by-the-first-rules'
  },
  {
    fault: 'callers whom the first rules take for one',
    moment: 'one credential, two tenants, one key, by the second rules',
    seen: '1 for each tenant',
    record: 'two',
    client: 'his own answer',
    test: ['core/scope/caller-scope.test.ts', 'two tenants never share, not even without a credential'],
    breaks: 'tenants-are-one'
  },
  {
    fault: 'callers whom the first rules take for one',
    moment: 'two hosts of an upstream with `host: preserve`, by the second rules',
    seen: '1 for each host',
    record: 'two',
    client: 'his own answer',
    test: ['gateway/scope/scope-rules.test.ts', 'rules 2: where the upstream is told the host, two hosts are two applications'],
    breaks: 'hosts-are-one'
  },
  {
    fault: 'the secret of the ids is lost',
    moment: 'what may have been executed under it comes again',
    seen: '1',
    record: 'the lost one, until it ends',
    client: '`outcome-unknown`',
    test: [STORY, 'where the secret is lost nothing that may have been executed is executed in silence'],
    breaks: 'lost-and-forgotten'
  }
]
