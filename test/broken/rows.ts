/**
 * The fault table of docs/internals/faults.md, row by row: the test that holds the row, and the break that takes its mechanism
 * out of the gateway. rows.test.ts runs each test on the build so broken, where it must fail; the suite runs it on the
 * sound one.
 */
import type { Need } from '../harness/needs.ts'
import { CLOCK_ROWS } from './clock.ts'
import { DOOR_ROWS } from './door.ts'
import { EXECUTION_ROWS } from './executions.ts'
import { FIELD_ROWS } from './fields.ts'
import { HOP_ROWS } from './hops.ts'
import { INBOX_RULE_ROWS } from './inbox-rules.ts'
import { INBOX_STORE_ROWS } from './inbox-stores.ts'
import { LEASE_ROWS } from './leases.ts'
import { POLICY_ROWS } from './policies.ts'
import { INBOX_ROWS } from './rows-inbox.ts'
import { POSTGRES_ROWS } from './rows-postgres.ts'
import { REDIS_ROWS } from './rows-redis.ts'
import { SCHEME_ROWS } from './schemes.ts'
import { WAY_ROWS } from './way.ts'

export interface FaultRow {
  readonly fault: string
  readonly moment: string
  /** How often the upstream sees the request. */
  readonly seen: string
  readonly record: string
  readonly client: string
  /** A file below test/, and the sentence of a test in it (or its beginning). */
  readonly test: readonly [file: string, name: string]
  readonly breaks: string
  /** Beside a Postgres and a Redis of its own. */
  readonly needs?: readonly Need[]
}

export const FAULT_ROWS: readonly FaultRow[] = [
  {
    fault: 'gateway killed',
    moment: 'before or after the lock in Redis',
    seen: '0',
    record: 'none',
    client: "connection error; a retry executes, after the lock's lease at the latest",
    test: ['crash/memory.test.ts', 'keep: whatever call the process dies at or loses'],
    breaks: 'lock-without-end'
  },
  {
    fault: 'gateway killed',
    moment: "after the claim's commit, before the send",
    seen: '0',
    record: 'claimed, then indeterminate (cannot be told from the next row)',
    client: 'retry: in flight until the lease ends, then as `unknown` says',
    test: ['gateway/claim/lapse.test.ts', 'the claim of a dead process is in flight until its lease is over'],
    breaks: 'leases-never-lapse'
  },
  {
    fault: 'gateway killed',
    moment: 'while forwarding, or answered and not settled (the window that no store closes)',
    seen: '≤ 1',
    record: 'claimed, then indeterminate',
    client: 'the same',
    test: ['crash/memory.test.ts', 'keep: whatever call the process dies at or loses'],
    breaks: 'dead-claims-freed'
  },
  {
    fault: 'gateway killed',
    moment: 'settled, not answered',
    seen: '1',
    record: 'completed',
    client: 'connection error; a retry replays',
    test: ['crash/memory.test.ts', 'keep: whatever call the process dies at or loses'],
    breaks: 'settle-after-answer'
  },
  {
    fault: 'gateway killed',
    moment: 'after an outcome became unknown, with `unknown: probe`',
    seen: '1',
    record: 'indeterminate, then what the upstream says to another gateway',
    client: '`outcome-unknown`, then a replay',
    test: ['gateway/probe/probe.test.ts', 'what a dead gateway left behind is asked about by another one'],
    breaks: 'probe-never-asks'
  },
  {
    fault: 'upstream does not know yet what it is doing',
    moment: 'asked by a probe',
    seen: '1',
    record: 'indeterminate: a "not found" counts only when the first sending is over, and twice',
    client: '`outcome-unknown`',
    test: ['gateway/probe/probe.test.ts', 'not found twice, after the first sending is certainly over'],
    breaks: 'probe-without-quarantine'
  },
  {
    fault: 'failover that loses the claimed row (asynchronous replication: outside the promise)',
    moment: 'during the execution, and its gateway dies; asked for while its lock in Redis stands',
    seen: '1',
    record: 'claimed once more for its owner, then indeterminate',
    client: 'in flight, then as `unknown` says',
    test: ['regress/lost-claim-under-a-lock.test.ts', 'a gateway that dies with the row of its claim lost'],
    breaks: 'lost-claims-stay-lost'
  },
  {
    fault: 'database frozen for longer than a lease',
    moment: 'an order to lapse is on its way',
    seen: '1',
    record: 'claimed: the order is void when it arrives, and the living renew first',
    client: 'as if nothing had been',
    test: ['store/postgres/faults.test.ts', 'an order to lapse that a frozen database receives late'],
    breaks: 'lapse-on-its-way'
  },
  {
    fault: 'client gone',
    moment: 'any',
    seen: '≤ 1',
    record: 'as if it had stayed',
    client: 'retry: replay, or in flight',
    test: ['gateway/client-gone.test.ts', 'a client that goes in mid-flight cancels nothing'],
    breaks: 'release-on-disconnect'
  },
  ...REDIS_ROWS,
  ...DOOR_ROWS,
  ...CLOCK_ROWS,
  {
    fault: 'database down, stalled, out of disk',
    moment: 'before the claim',
    seen: '0',
    record: 'none',
    client: '503 + `Retry-After`; settled copies still replay',
    test: ['e2e/stores-lost.test.ts', 'Postgres killed: 503 and nothing sent'],
    breaks: 'forward-when-down'
  },
  {
    fault: 'database down or failing over',
    moment: 'between send and settle',
    seen: '1',
    record: 'claimed; the settle is tried again while the process lives',
    client: 'the real answer, `Idempotency-Stored: false`; afterwards replays',
    test: ['gateway/settle/unsettled.test.ts', 'while the arbiter is down the real answer comes within three seconds'],
    breaks: 'settle-once'
  },
  {
    fault: 'database down for longer than a lease',
    moment: 'during an execution',
    seen: '≤ 1',
    record: 'claimed; nobody takes it before a lease of unbroken contact',
    client: 'as above',
    test: ['gateway/claim/lapse.test.ts', 'nobody takes a lease that is over before one lease of unbroken contact'],
    breaks: 'lapse-in-the-dark'
  },
  {
    fault: 'answers that wait for the database fill `limits.unsettledBytes`',
    moment: 'before the claim',
    seen: '0',
    record: 'none',
    client: '503 + `Retry-After`',
    test: ['gateway/settle/unsettled.test.ts', 'answers that wait to be settled stop new requests at their bound'],
    breaks: 'unsettled-without-bound'
  },
  {
    fault: 'reply of a commit lost',
    moment: 'claim',
    seen: '≤ 1',
    record: 'confirmed by a write, or released unsent',
    client: 'as decided, or 503 and nothing was sent',
    test: ['gateway/claim/claim-in-doubt.test.ts', 'a claim in doubt (applied, its reply lost) is confirmed and sent once'],
    breaks: 'reread-in-doubt'
  },
  {
    fault: 'reply of a commit lost',
    moment: 'settle',
    seen: '1',
    record: 'completed: its own outcome is known again',
    client: 'the answer',
    test: ['gateway/settle/unsettled.test.ts', 'a settle whose reply was lost is found done by the next try'],
    breaks: 'lost-settle-is-fenced'
  },
  {
    fault: 'one row locked by somebody',
    moment: 'renewal',
    seen: '1',
    record: 'the others are renewed',
    client: 'unchanged',
    test: ['store/postgres/races.test.ts', 'one locked row does not keep the others from being renewed'],
    breaks: 'renewals-wait'
  },
  ...POSTGRES_ROWS,
  {
    fault: 'upstream refuses, unknown host, TLS fails',
    moment: 'before the first byte',
    seen: '0',
    record: 'released',
    client: '502 or 503 + `Retry-After`; a retry executes',
    test: ['gateway/forward/unsent.test.ts', 'an upstream that refuses the connection'],
    breaks: 'unsent-is-unknown'
  },
  {
    fault: 'upstream resets, is silent, breaks off, sends garbage',
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate',
    client: '502 or 504 `outcome-unknown`, for every retry too',
    test: ['gateway/forward/unknown.test.ts', 'an upstream that ends the connection'],
    breaks: 'lost-is-released'
  },
  {
    fault: "a hop's 502 or 504",
    moment: 'after the first byte',
    seen: '≤ 1',
    record: 'indeterminate',
    client: 'the answer as it came, marked; retries `outcome-unknown`',
    test: ['gateway/forward/hops.test.ts', 'a 502 of a hop passes as it came'],
    breaks: 'hops-are-kept'
  },
  ...HOP_ROWS,
  {
    fault: 'process paused beyond its lease',
    moment: 'before the last check',
    seen: '0',
    record: 'released, or indeterminate',
    client: '503, nothing was sent',
    test: ['gateway/forward/busy-pool.test.ts', 'nothing is sent when the process was paused beyond its lease'],
    breaks: 'ignore-lease'
  },
  {
    fault: 'process paused beyond its lease',
    moment: 'after the last check',
    seen: '1',
    record: 'indeterminate, then completed by the late answer',
    client: 'as `unknown` says, then replays',
    test: ['gateway/settle/fenced.test.ts', 'a late true answer wins over a lapsed lease'],
    breaks: 'late-settles-refused'
  },
  {
    fault: 'process paused until its record\'s life is over',
    moment: 'the settle\'s reply is in the socket, and so are retries',
    seen: '1 per life',
    record: 'of the new life',
    client: 'the new answer; the first requester, what he had executed',
    test: [
      'regress/stopped-before-keeping.test.ts',
      'who joins an execution whose settle\'s reply waited while the process stood still asks for himself (stall)'
    ],
    breaks: 'joiners-hear-the-past'
  },
  {
    fault: 'process paused until somebody else has claimed',
    moment: 'settle',
    seen: '2, on a route with `unknown: retry`',
    record: 'the later claim stands; the earlier owner is fenced',
    client: 'what is stored',
    test: ['crash/memory.test.ts', 'stalled: whatever call the process dies at or loses'],
    breaks: 'accept-any-owner'
  },
  {
    fault: 'duplicates at several gateways at once',
    moment: 'claim',
    seen: '1',
    record: 'one claim',
    client: 'one executes; the others wait, or are told in flight',
    test: [
      'e2e/two-processes.test.ts',
      '50 simultaneous duplicates of one key are one execution and 49 in-flight or replayed answers, on Postgres alone'
    ],
    breaks: 'skip-claim'
  },
  {
    fault: 'retention ends while a retry arrives',
    moment: 'claim',
    seen: '≤ 1 per life',
    record: 'a new life',
    client: 'executes or replays, never both',
    test: ['store/postgres/races.test.ts', 'a take of a past row loses to whoever made it live longer'],
    breaks: 'past-is-taken-unlocked'
  },
  {
    fault: 'SIGTERM',
    moment: 'during an execution',
    seen: '1',
    record: 'drained; what outlasts the drain is indeterminate',
    client: 'answered',
    test: ['e2e/lifecycle.test.ts', 'SIGTERM: not ready at once'],
    breaks: 'no-drain'
  },
  {
    fault: 'failover that loses the claimed row (asynchronous replication: outside the promise)',
    moment: 'after the answer, with an unsettled copy in Redis',
    seen: '1',
    record: 'put back from the copy',
    client: 'replay',
    test: ['regress/lost-row-under-a-copy.test.ts', 'an unsettled answer whose row has vanished is put back and replayed'],
    breaks: 'lost-rows-stay-lost'
  },
  {
    fault: 'failover that loses the claimed row (asynchronous replication: outside the promise)',
    moment: 'during the execution, with its lock in Redis',
    seen: '1',
    record: 'put back by its owner',
    client: 'in flight, then replay',
    test: ['regress/lost-claim-under-a-lock.test.ts', 'while a request whose row was lost is executed its duplicates are in flight'],
    breaks: 'lost-claims-invite'
  },
  {
    fault: 'wait for a synchronous standby cancelled',
    moment: 'claim, settle',
    seen: '≤ 1',
    record: 'a lost reply: confirmed by a write',
    client: 'as decided, or 503 and nothing was sent',
    test: ['store/postgres/faults.test.ts', 'a commit that came with a warning counts as a lost reply'],
    breaks: 'warnings-are-fine'
  },
  {
    fault: "the database's address leads to a replica",
    moment: 'any',
    seen: '0',
    record: 'unchanged',
    client: '503 + `Retry-After`, until a new connection finds the primary',
    test: ['store/postgres/replication.test.ts', 'a replica is not the arbiter'],
    breaks: 'replicas-are-kept',
    needs: ['postgres tools']
  },
  {
    fault: 'a backup was restored',
    moment: 'the record was claimed or free in it; after `onceway epoch bump`',
    seen: '≤ 1',
    record: 'indeterminate',
    client: '`outcome-unknown`',
    test: ['cli/epoch.test.ts', 'what was claimed or free is unknown afterwards'],
    breaks: 'free-stays-free'
  },
  {
    fault: 'Redis has an answer that the database has not taken',
    moment: 'retry at another gateway',
    seen: '1',
    record: 'settled by its owner and attempt before it is replayed',
    client: 'the real answer, `Idempotency-Stored: false`, until then',
    test: ['gateway/settle/unsettled.test.ts', 'another process gives an unsettled answer marked while the arbiter is down'],
    breaks: 'replay-unsettled'
  },
  ...INBOX_ROWS,
  ...INBOX_STORE_ROWS,
  ...INBOX_RULE_ROWS,
  ...LEASE_ROWS,
  ...EXECUTION_ROWS,
  ...WAY_ROWS,
  ...POLICY_ROWS,
  ...FIELD_ROWS,
  ...SCHEME_ROWS
]

const HEAD = ['fault', 'moment', 'your server sees it', 'record', 'client', 'held by', 'fails without']

/** The rows as a table in Markdown. */
export function faultTable (): string {
  const lines = FAULT_ROWS.map(({ fault, moment, seen, record, client, test: [file, name], breaks }) =>
    [fault, moment, seen, record, client, `[\`${file}\`](../../test/${file}): ${name}`, `\`${breaks}\``])
  return [HEAD, HEAD.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

const BEGIN = '<!-- fault table -->\n'
const END = '<!-- end of the fault table -->'

/** A page with the table between its two marks. */
export function withFaultTable (page: string): string {
  const [before, rest] = page.split(BEGIN)
  const after = rest?.slice(rest.indexOf(END))
  return `${before}${BEGIN}${faultTable()}\n${after}`
}
