/** The fault table's rows of what stands between the gateway and the upstream, or the database and its standby, and the breaks that they name. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

export const HOP_ROWS: readonly FaultRow[] = [
  {
    fault: "a hop's 503 or 408, and one that nobody signs",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['gateway/hops.test.ts', "a 503 of Heroku's router passes as it came"],
    breaks: 'hops-are-the-application'
  },
  {
    fault: "a hop's own page under another server's name (Envoy behind nginx)",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate; released where the page says that nobody was reached',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['core/hops.test.ts', 'a page of a hop that may have sent the request on is unknown'],
    breaks: 'pages-by-server'
  },
  {
    fault: "a hop's own status (Cloudflare's 520, a load balancer's 460)",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate; released where it says that nobody was reached',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['gateway/hops.test.ts', 'a 520 of Cloudflare passes as it came'],
    breaks: 'codes-are-kept'
  },
  {
    fault: 'process paused beyond `upstream.timeout`',
    moment: 'the answer is in the socket when the late timer is called',
    seen: '1',
    record: 'completed',
    client: 'the answer',
    test: ['gateway/late-timer.test.ts', 'an answer that lies in the socket when a late timer is called is the result'],
    breaks: 'late-timers-abort'
  }
]

export const HOP_BREAKS: readonly Break[] = [
  {
    name: 'hops-are-the-application',
    does: "takes every 503 and 408 that it does not know for the application's",
    breaks: ['I1', 'I10'],
    patches: [{ file: 'core/hops.ts', find: "return hops.header === null && isMarked(answer) ? 'application' : 'perhaps'", replace: "return 'application'" }]
  },
  {
    name: 'pages-by-server',
    does: "does not look at what a hop's page says",
    breaks: ['I1', 'I10'],
    patches: [{ file: 'core/hops.ts', find: "return PERHAPS_PAGES.has(text) || PERHAPS_WORDS.some(words => text.includes(words)) ? 'perhaps' : null", replace: 'return null' }]
  },
  {
    name: 'codes-are-kept',
    does: "keeps the statuses that only hops give as the application's own",
    breaks: ['E4'],
    patches: [{ file: 'core/disposition.ts', find: "return isCodeOfHop(answer.status) ? BY_CODE[writerOf(answer, hops)] : 'keep'", replace: "return 'keep'" }]
  },
  {
    name: 'late-timers-abort',
    does: 'ends a sending by its timer without a look at the socket',
    breaks: ['E4'],
    patches: [{ file: 'upstream/sender.ts', find: 'if (!timedOut || !this.#started) return this.#cancelNow(code, timedOut)', replace: 'return this.#cancelNow(code, timedOut)' }]
  }
]
