/** The fault table's rows of the inbox's stores, and the breaks that they name: one mechanism out of every driver that has it. */
import type { Break } from './breaks.ts'
import type { FaultRow } from './rows.ts'

const [TABLE, ROW] = ['core/inbox/transitions.ts', 'core/inbox/row.ts']
const SQLITE = 'store/sqlite/inbox-table.ts'
const SQLITE_OPERATOR = 'store/sqlite/inbox-operator.ts'
const SQLITE_STATEMENTS = 'store/sqlite/inbox-statements.ts'
const [ACCEPT, ARRIVALS, POSTGRES, LANES, TURNS, WORKERS, OPERATOR] = [
  'store/postgres/inbox-accept.ts',
  'store/postgres/inbox-arrivals.ts',
  'store/postgres/inbox-deliver.ts',
  'store/postgres/inbox-lanes.ts',
  'store/postgres/inbox-turns.ts',
  'store/postgres/inbox-workers.ts',
  'store/postgres/inbox-operator.ts'
]

const SENDER = 'has its 202'
const SUITE = 'store/sqlite/inbox.test.ts'

export const INBOX_STORE_ROWS: readonly FaultRow[] = [
  {
    fault: 'inbox: database down',
    moment: 'acceptance',
    seen: '0',
    record: 'none',
    client: '503, never a 202 before the commit',
    test: ['gateway/inbox/accept.test.ts', 'the store is down: 503 and nothing is accepted'],
    breaks: 'accepted-before-the-commit'
  },
  {
    fault: 'inbox: worker overtaken by another one',
    moment: 'it says what became of its delivery',
    seen: 'by both deliveries',
    record: 'as the other one says; nothing changed',
    client: SENDER,
    test: [SUITE, 'who has another owner, another attempt, or has said it before, settles nothing'],
    breaks: 'any-worker-settles'
  },
  {
    fault: 'inbox: worker dead',
    moment: 'a delivery is under way',
    seen: '≤ 1, then 1 as the next delivery',
    record: 'message waits again; no number of a delivery comes twice',
    client: SENDER,
    test: [SUITE, 'what a dead worker had is delivered again under a higher attempt'],
    breaks: 'deliveries-unnumbered'
  },
  {
    fault: 'inbox: consumer fails',
    moment: 'delivery of an ordered message',
    seen: 'the message again, then the next of its group',
    record: 'message waits, and its group behind it',
    client: SENDER,
    test: ['inbox/deliverer.test.ts', 'a group is delivered in its order: the next waits behind a retry'],
    breaks: 'retries-are-passed'
  },
  {
    fault: 'inbox: poison message',
    moment: 'dead, with `onDead: stop-group`',
    seen: 'nothing more of its group',
    record: 'message dead; its group waits for an operator',
    client: SENDER,
    test: [SUITE, 'one that stops its group stops it while it is dead'],
    breaks: 'the-dead-stop-nobody'
  },
  {
    fault: 'inbox: several takers, or an operator',
    moment: 'one holds a message locked',
    seen: 'the others, at once',
    record: 'the locked one is passed over',
    client: SENDER,
    test: ['store/postgres/inbox-races.test.ts', 'a message that somebody holds locked holds up none of the others'],
    breaks: 'takers-wait'
  },
  {
    fault: 'inbox: batch with an item that stands there as another request',
    moment: 'acceptance',
    seen: '0',
    record: 'none of the batch',
    client: '422 `key-reused`',
    test: [SUITE, 'a batch with a message that stands there as another request is not accepted at all'],
    breaks: 'batches-in-part'
  },
  {
    fault: 'inbox: operator retries everything',
    moment: 'some of it is being delivered',
    seen: '1 by the delivery that is under way',
    record: 'delivering, unchanged',
    client: SENDER,
    test: [SUITE, 'a retry delivers again what is dead, held or pausing'],
    breaks: 'retry-under-way'
  },
  {
    fault: 'inbox: operator retries everything',
    moment: 'some of it is discarded',
    seen: '0',
    record: 'discarded, unchanged',
    client: SENDER,
    test: [SUITE, 'retry: every state of a message, in a group and in none'],
    breaks: 'discarded-come-back'
  },
  {
    fault: 'inbox: operator retries a dead message of a group',
    moment: 'a later one of the group is due',
    seen: 'the retried one, then the later one',
    record: 'the later one waits behind it, without a time',
    client: SENDER,
    test: [SUITE, 'recall: an earlier one is retried: every state of a message of a group'],
    breaks: 'recalled-keep-their-time'
  },
  {
    fault: 'inbox: worker late, and reports',
    moment: 'its lease is over, and nobody has taken its messages back',
    seen: '1',
    record: 'message as reported',
    client: SENDER,
    test: [SUITE, 'settle delivered: every state of a message, in a group and in none'],
    breaks: 'late-reports-are-lost'
  },
  {
    fault: 'inbox: worker dead, with `unknown: hold`',
    moment: 'it delivers a message that was retried after an answer',
    seen: '≤ 1',
    record: 'message held, without the answer of its earlier life',
    client: SENDER,
    test: [SUITE, 'one that is held because its worker died has no answer of an earlier life'],
    breaks: 'old-answers-stay'
  }
]

export const INBOX_STORE_BREAKS: readonly Break[] = [
  {
    name: 'discarded-come-back',
    does: "lets an operator's retry deliver what was discarded",
    breaks: ['N1'],
    patches: [
      {
        file: TABLE,
        find: "'·',     '·',     'retry', 'retry', 'retry', 'retry', '·', ",
        replace: "'·',     '·',     'retry', 'retry', 'retry', 'retry', 'retry', "
      },
      {
        file: SQLITE_OPERATOR,
        find: ": this.#matching(filter, nowMs, ['waiting', 'held', 'dead'])",
        replace: ": this.#matching(filter, nowMs, ['waiting', 'held', 'dead', 'discarded'])"
      },
      {
        file: OPERATOR,
        find: "m.state in ('waiting', 'held', 'dead')",
        replace: "m.state in ('waiting', 'held', 'dead', 'discarded')"
      }
    ]
  },
  {
    name: 'recalled-keep-their-time',
    does: 'calls a message due that waits behind an earlier one of its group',
    breaks: ['order'],
    patches: [
      {
        file: TABLE,
        find: "recall:             ['·',   '·',     'wait',  'wait', ",
        replace: "recall:             ['·',   '·',     '·',     '·', "
      },
      { file: SQLITE, find: '    this.#prepare(strays).run(group, first.number as number)\n', replace: '' },
      { file: TURNS, find: ' union all select id from strays', replace: '' }
    ]
  },
  {
    name: 'late-reports-are-lost',
    does: 'refuses what a worker says whose lease is over, though nobody has taken its messages back',
    breaks: ['I1'],
    patches: [
      {
        file: TABLE,
        find: "'settle:delivered': ['·',   '·',     '·',     '·',     'end',   'end',",
        replace: "'settle:delivered': ['·',   '·',     '·',     '·',     'end',   '·',"
      },
      {
        file: SQLITE,
        find: '    if (found === undefined || found.attempt !== attempt',
        replace: '    if (this.#prepare(isAlive).get(owner, nowMs) === undefined) return false\n    if (found === undefined || found.attempt !== attempt'
      },

      {
        file: POSTGRES,
        find: "and h.attempt = w.attempt and h.state = 'delivering'",
        replace: `and h.attempt = w.attempt and h.state = 'delivering'
          and exists (select from \${schema}.workers k where k.owner = w.owner and k.alive_until > clock_timestamp())`
      },
      {
        file: LANES,
        find: "and coalesce(m.state = 'delivering', false)",
        replace: `and coalesce(m.state = 'delivering', false)
          and exists (select from \${schema}.workers k where k.owner = w.owner and k.alive_until > clock_timestamp())`
      }
    ]
  },
  {
    name: 'old-answers-stay',
    does: 'holds a message with the answer of a delivery before the one that it is held for',
    breaks: ['I1'],
    patches: [
      { file: TABLE, find: "endedRow({ ...after, answer: null }, 'held', nowMs)", replace: "endedRow(after, 'held', nowMs)" },
      { file: SQLITE_STATEMENTS, find: "iif(?1 = 'waiting', answer, ?9)", replace: "iif(?1 in ('waiting', 'held'), answer, ?9)" },
      { file: WORKERS, find: ' answer = case when not m.holds then m.answer end,', replace: '' }
    ]
  },
  {
    name: 'any-worker-settles',
    does: 'lets any worker say what became of a delivery, whoever has the message by now',
    breaks: ['P5'],
    patches: [
      {
        file: TABLE,
        find: 'return row.attempt === attempt && row.owner?.equals(owner) === true',
        replace: 'return row.attempt > 0 && owner.length + attempt > 0'
      },
      {
        file: SQLITE,
        find: ' || found.attempt !== attempt || !owner.equals(found.owner as Uint8Array)) return false',
        replace: ' || owner.length + attempt === 0) return false'
      },
      {
        file: POSTGRES,
        find: "and h.owner = w.owner and h.attempt = w.attempt and h.state = 'delivering'",
        replace: "and h.state = 'delivering'"
      },
      {
        file: LANES,
        find: 'and m.owner is not distinct from w.owner and m.attempt = w.attempt\n   and coalesce(m.state',
        replace: 'and coalesce(m.state'
      }
    ]
  },
  {
    name: 'deliveries-unnumbered',
    does: 'delivers a message again under the number that it had',
    breaks: ['P5'],
    patches: [
      { file: TABLE, find: 'attempt: row.attempt + 1', replace: 'attempt: 1' },
      { file: SQLITE_STATEMENTS, find: 'attempt = attempt + 1', replace: 'attempt = 1' },
      { file: POSTGRES, find: 'attempt = m.attempt + 1', replace: 'attempt = 1' }
    ]
  },
  {
    name: 'retries-are-passed',
    does: 'hands out the next one of a group while the one before it waits to be tried again',
    breaks: ['order'],
    patches: [
      {
        file: TABLE,
        find: '(other.number < number ||',
        replace: "((other.number < number && (other.tries === 0 || other.state !== 'waiting')) ||"
      },
      {
        file: 'store/memory/inbox.ts',
        find: 'const isBehind = message.group !== null && ',
        replace: 'const isBehind = message.group === null && '
      },
      {
        file: SQLITE_STATEMENTS,
        find: 'e.blocks and e.number < m.number)',
        replace: "e.blocks and e.number < m.number and (e.tries = 0 or e.state <> 'waiting'))"
      },
      {
        file: SQLITE,
        find: 'const isCalled = group === null || this.#prepare(isBehind).get(group) === undefined',
        replace: 'const isCalled = true'
      },
      {
        file: TURNS,
        find: 'e.blocks and e.number < m.number)',
        replace: "e.blocks and e.number < m.number and (e.tries = 0 or e.state <> 'waiting'))"
      },
      { file: ARRIVALS, find: '(a.place = 1 and not exists (', replace: '(a.place = 1 or not exists (' }
    ]
  },
  {
    name: 'the-dead-stop-nobody',
    does: 'lets a group go on behind a dead or held message that should stop it',
    breaks: ['order'],
    patches: [
      {
        file: ROW,
        find: "return row.stops && (row.state === 'held' || row.state === 'dead')",
        replace: "return row.stops && row.state === 'delivered'"
      },
      { file: SQLITE, find: "(columns.stops === 1 && state !== 'delivered')", replace: "(columns.stops === 1 && state === 'delivered')" },
      { file: POSTGRES, find: "(m.stops and w.state in ('held', 'dead'))", replace: "(m.stops and w.state = 'delivered')" }
    ]
  },
  {
    name: 'takers-wait',
    does: 'waits for a message that somebody else holds, with all the others behind it',
    breaks: ['trouble'],
    patches: [{ file: POSTGRES, find: 'for no key update of m skip locked) d`', replace: 'for no key update of m) d`' }]
  },
  {
    name: 'batches-in-part',
    does: 'accepts of a batch what is free, where one of it stands there as another request',
    breaks: ['P6'],
    patches: [
      { file: 'store/memory/inbox.ts', find: 'if (!isNone) for (', replace: 'for (' },
      { file: SQLITE, find: 'if (!isNone) this.#put(arrival, nowMs)', replace: 'this.#put(arrival, nowMs)' },
      {
        file: ACCEPT,
        find: 'if (isForeign || isRecorded || missing.length === 0) return results',
        replace: 'if (isRecorded || missing.length === 0) return results'
      }
    ]
  },
  {
    name: 'retry-under-way',
    does: "lets an operator's retry take a message from the worker that is delivering it",
    breaks: ['I1'],
    patches: [
      {
        file: TABLE,
        find: "retry:              ['·',   'retry', 'retry', 'retry', '·',     '·', ",
        replace: "retry:              ['·',   'retry', 'retry', 'retry', 'retry', 'retry', "
      },
      {
        file: SQLITE_OPERATOR,
        find: ": this.#matching(filter, nowMs, ['waiting', 'held', 'dead'])",
        replace: ": this.#matching(filter, nowMs, ['waiting', 'delivering', 'held', 'dead'])"
      },
      {
        file: SQLITE_OPERATOR,
        find: "set state = \\'waiting\\', tries = 0,",
        replace: "set state = \\'waiting\\', owner = null, tries = 0,"
      },
      {
        file: OPERATOR,
        find: "m.state in ('waiting', 'held', 'dead')",
        replace: "m.state in ('waiting', 'delivering', 'held', 'dead')"
      }
    ]
  }
]
