/**
 * The fault table's rows of what stands between the gateway and the upstream, or the database and its standby, and the
 * breaks that they name.
 */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

export const HOP_ROWS: readonly FaultRow[] = [
  {
    fault: "a hop's 503 or 408, and one that nobody signs",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['gateway/forward/hops.test.ts', "a 503 of Heroku's router passes as it came"],
    breaks: 'hops-are-the-application'
  },
  {
    fault: "a hop's own page under another server's name (Envoy behind nginx)",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate; released where the page says that nobody was reached',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['core/headers/hops.test.ts', 'a page of a hop that may have sent the request on is unknown'],
    breaks: 'pages-by-server'
  },
  {
    fault: "a hop's own status (Cloudflare's 520, a load balancer's 460)",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate; released where it says that nobody was reached',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['gateway/forward/hops.test.ts', 'a 520 of Cloudflare passes as it came'],
    breaks: 'codes-are-kept'
  },
  {
    fault: 'process paused beyond `upstream.timeout`',
    moment: 'the answer is in the socket when the late timer is called',
    seen: '1',
    record: 'completed',
    client: 'the answer',
    test: ['gateway/claim/late-timer.test.ts', 'an answer that lies in the socket when a late timer is called is the result'],
    breaks: 'late-timers-abort'
  },
  {
    fault: 'database slow to grant a claim (`claimTimeout` above half a minute)',
    moment: 'while the upstream works',
    seen: '1',
    record: 'claimed: its lease is renewed until the sending is over',
    client: 'the answer',
    test: ['gateway/claim/slow-claim-renewed.test.ts', 'the hard end counts from where the sending may begin'],
    breaks: 'hard-end-from-the-start'
  },
  {
    fault: "a hop's 404",
    moment: 'to a probe, where the route demands a mark (`notFoundMark`)',
    seen: '1',
    record: 'indeterminate, until the upstream itself says it',
    client: '`outcome-unknown`',
    test: ['gateway/probe/probe.test.ts', 'a "not found" without the mark that the route demands'],
    breaks: 'any-404-is-no'
  },
  {
    fault: 'a pooler that balances reads (pgpool)',
    moment: 'any',
    seen: '≤ 1',
    record: 'read at the primary',
    client: 'as without it',
    test: ['store/postgres/unbalanced.test.ts', 'no statement of the store is one that it would balance'],
    breaks: 'reads-are-balanced'
  },
  {
    fault: 'stores down, `onStoreDown: forward`, and a fault of the gateway itself',
    moment: 'after the last point before the first byte',
    seen: '≤ 1',
    record: 'none',
    client: '502 `outcome-unknown`, never "nothing was sent"',
    test: ['gateway/claim/store-down.test.ts', 'when something goes wrong behind an unprotected sending'],
    breaks: 'unprotected-is-unsent'
  },
  {
    fault: 'upstream breaks off a stream, or an answer too large to keep',
    moment: 'after it was settled by its head',
    seen: '1',
    record: 'consumed, then indeterminate by its owner',
    client: 'cut off; retries `outcome-unknown`',
    test: ['gateway/settle/broken-streams.test.ts', 'a stream that its upstream breaks off midway is unknown afterwards'],
    breaks: 'broken-is-executed'
  },
  {
    fault: 'an asynchronous standby is away (outside the promise, if it is promoted)',
    moment: 'while the gateway looks which promise holds',
    seen: '1',
    record: 'unchanged',
    client: 'unchanged; `/readyz`, log and metric say `weakened`',
    test: ['e2e/standing.test.ts', 'an asynchronous standby that is away for a moment is none that is gone'],
    breaks: 'slots-are-nobody',
    needs: ['postgres tools']
  },
  {
    fault: 'a standby that some commits do not wait for (outside the promise, if it is promoted)',
    moment: 'beside others that they wait for: `FIRST n`, `ANY n`',
    seen: '1',
    record: 'unchanged',
    client: 'unchanged; `/readyz`, log and metric say `weakened`',
    test: ['core/protocol/durability.test.ts', 'it is strict where each commit waits for each standby that could be promoted'],
    breaks: 'any-standby-will-do'
  }
]

export const HOP_BREAKS: readonly Break[] = [
  {
    name: 'hops-are-the-application',
    does: "takes every 503 and 408 that it does not know for the application's",
    breaks: ['I1', 'I10'],
    patches: [{
      file: 'core/headers/hops.ts',
      find: "return hops.header === null && isMarked(answer) ? 'application' : 'perhaps'",
      replace: "return 'application'"
    }]
  },
  {
    name: 'pages-by-server',
    does: "does not look at what a hop's page says",
    breaks: ['I1', 'I10'],
    patches: [{
      file: 'core/headers/hops.ts',
      find: "return PERHAPS_PAGES.has(text) || PERHAPS_WORDS.some((words) => text.includes(words)) ? 'perhaps' : null",
      replace: 'return null'
    }]
  },
  {
    name: 'codes-are-kept',
    does: "keeps the statuses that only hops give as the application's own",
    breaks: ['E4'],
    patches: [{
      file: 'core/protocol/disposition.ts',
      find: "return isCodeOfHop(answer.status) ? BY_CODE[writerOf(answer, hops)] : 'keep'",
      replace: "return 'keep'"
    }]
  },
  {
    name: 'late-timers-abort',
    does: 'ends a sending by its timer without a look at the socket',
    breaks: ['E4'],
    patches: [{
      file: 'upstream/sender.ts',
      find: 'if (!timedOut || !this.#started) return this.#cancelNow(code, timedOut)',
      replace: 'return this.#cancelNow(code, timedOut)'
    }]
  },
  {
    name: 'hard-end-from-the-start',
    does: 'counts the end of all renewals from before the claim',
    breaks: ['E2'],
    patches: [{
      file: 'gateway/execution/guarded-request.ts',
      find: 'return this.sendsFromMs + this.keyed.route.upstream.timeoutMs',
      replace: 'return this.startedAtMs + this.keyed.route.upstream.timeoutMs'
    }]
  },
  {
    name: 'any-404-is-no',
    does: 'takes every "not found" for the upstream\'s',
    breaks: ['I12'],
    patches: [{
      file: 'core/probe/probe.ts',
      find: "return marked ? { kind: 'absent' } : { kind: 'nothing', why: 'UNMARKED' }",
      replace: "return { kind: 'absent' }"
    }]
  },
  {
    name: 'reads-are-balanced',
    does: 'lets a pooler send its reads anywhere',
    breaks: ['P4', 'E2b'],
    patches: [{
      file: 'store/postgres/statements.ts',
      find: "export const UNBALANCED = '/*NO LOAD BALANCE*/'",
      replace: "export const UNBALANCED = ''"
    }]
  },
  {
    name: 'unprotected-is-unsent',
    does: 'does not note when it sends without protection',
    breaks: ['I8'],
    patches: [{ file: 'gateway/forward/forward.ts', find: 'if (!execution.cancelled) execution.sentAtMs = now\n', replace: '' }]
  },
  {
    name: 'broken-is-executed',
    does: 'goes on calling a stream executed that its upstream broke off',
    breaks: ['E5', 'I7'],
    patches: [{
      file: 'gateway/settle/broken-streams.ts',
      find: 'if (code !== null && !context.drain.stopped)',
      replace: 'if (code === undefined)'
    }]
  },
  {
    name: 'slots-are-nobody',
    does: 'knows of no standby that is not connected',
    breaks: ['P2'],
    patches: [{ file: 'store/postgres/durability.ts', find: 'return [...waitedFor, ...gone]', replace: 'return []' }]
  },
  {
    name: 'any-standby-will-do',
    does: 'calls it strict as soon as commits wait for somebody',
    breaks: ['P2'],
    patches: [{
      file: 'core/protocol/durability.ts',
      find: 'WAITS_FOR_STANDBY.has(commits) && waitsForAll(readStandbyNames(names), standbys, away)',
      replace: 'WAITS_FOR_STANDBY.has(commits)'
    }]
  }
]
