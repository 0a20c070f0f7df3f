/** Workers and doors of the inbox that lie: each must be caught by the chaos run in mode inbox. */
import type { Break } from './breaks.ts'

const ACCEPTING = 'gateway/inbox/accept.ts'
const DELIVER = 'store/postgres/inbox-deliver.ts'
const LANES = 'store/postgres/inbox-lanes.ts'

export const INBOX_LIES = [
  'accepted-before-the-commit', 'next-beside-a-retry', 'same-attempt-again', 'failed-is-delivered',
  'stopped-groups-go-on', 'held-is-sent-again', 'one-key-any-request', 'accepted-and-executed', 'settle-any-token',
  'targets-one-by-one', 'every-target-takes', 'replay-unsaid', 'due-at-once', 'delivers-while-paused', 'every-take-is-a-trial'
] as const

/** No lie, and no rule less: a worker is given up after three seconds, so that a run of seconds sees what comes of it. */
export const SHORT_WORKER_LEASE = 'short-worker-lease'

export const INBOX_LIE_BREAKS: readonly Break[] = [
  {
    name: SHORT_WORKER_LEASE,
    does: "lets a worker's lease end after three seconds",
    breaks: [],
    patches: [{ file: 'gateway/shared/arbiter-clock.ts', find: 'WORKER_LEASE_MS = 15_000', replace: 'WORKER_LEASE_MS = 3_000' }]
  },
  {
    name: 'accepted-before-the-commit',
    does: 'answers 202 as soon as a message is on its way to the store',
    breaks: ['N1'],
    patches: [{
      file: ACCEPTING,
      find: 'return await acceptAll(context, keyed, parts, made)',
      replace: 'void acceptAll(context, keyed, parts, made).catch(() => {})\n    return accepted(keyed, parts, { news: new Set(parts.map(({ name }) => name)) })'
    }]
  },
  {
    name: 'next-beside-a-retry',
    does: 'gives the next of a group out while one before it waits for its retry',
    breaks: ['N4'],
    patches: [
      {
        file: 'store/postgres/inbox-turns.ts',
        find: 'e.blocks and e.number < m.number)',
        replace: "e.state = 'delivering' and e.number < m.number)"
      },
      {
        file: 'store/postgres/inbox-arrivals.ts',
        find: 'where m.group_id = a.group_id and m.blocks))',
        replace: "where m.group_id = a.group_id and m.state = 'delivering'))"
      }
    ]
  },
  {
    name: 'same-attempt-again',
    does: 'hands a message out again with the number that it had',
    breaks: ['N2'],
    patches: [{ file: DELIVER, find: 'attempt = m.attempt + 1, tries', replace: 'attempt = greatest(m.attempt, 1), tries' }]
  },
  {
    name: 'failed-is-delivered',
    does: 'puts away a message whose delivery failed',
    breaks: ['N8'],
    patches: [{
      file: 'core/inbox/delivery.ts',
      find: "return { kind: 'again', inMs, status, error }",
      replace: "return { kind: 'delivered', answer, status: status ?? 200 }"
    }]
  },
  {
    name: 'stopped-groups-go-on',
    does: 'lets a group go on behind a dead message that stops it',
    breaks: ['N4'],
    patches: [{
      file: DELIVER,
      find: "blocks = w.state = 'waiting' or (m.stops and w.state in ('held', 'dead')),",
      replace: "blocks = w.state = 'waiting',"
    }]
  },
  {
    name: 'held-is-sent-again',
    does: 'sends again what may have been sent, whatever the route says',
    breaks: ['N6'],
    patches: [{
      file: 'core/inbox/delivery.ts',
      find: "if (sent.kind === 'lost') {\n    return policy.unknown !== 'retry' ?",
      replace: "if (sent.kind === 'lost') {\n    return policy.unknown === 'probe' ?"
    }]
  },
  {
    name: 'one-key-any-request',
    does: 'tells whoever uses a key that his request was accepted',
    breaks: ['N3'],
    patches: [{
      file: 'gateway/fingerprint/comparison.ts',
      find: "  return comparison === 'different' && replaysMismatch(keyed) ? 'same' : comparison\n",
      replace: "  return comparison === 'different' ? 'same' : comparison\n"
    }]
  },
  {
    name: 'accepted-and-executed',
    does: 'sends at once what it has accepted because its client asked for that',
    breaks: ['N2', 'N5'],
    patches: [{
      file: 'gateway/inbox/accept-claimed.ts',
      find: 'noteMessage(context, message)\n      return taken(keyed, result)\n',
      replace: 'noteMessage(context, message)\n      return null\n'
    }]
  },
  {
    name: 'settle-any-token',
    does: 'lets a worker settle whatever delivery there is of a message, also another\'s',
    breaks: ['N8'],
    patches: [{
      file: DELIVER,
      find: "and h.owner = w.owner and h.attempt = w.attempt and h.state = 'delivering'",
      replace: "and h.state = 'delivering'"
    }, {
      file: LANES,
      find: 'and m.owner is not distinct from w.owner and m.attempt = w.attempt\n   and coalesce(m.state',
      replace: 'and coalesce(m.state'
    }]
  },
  {
    name: 'targets-one-by-one',
    does: 'accepts the messages for several consumers one after another',
    breaks: ['N10'],
    patches: [{
      file: ACCEPTING,
      find: ': await inbox.acceptAll(made.map(({ message }) => message))',
      replace: ': await made.reduce(async (before, { message: { alongside: _, ...message } }) => [...await before, await inbox.accept(message)], Promise.resolve([]))'
    }]
  },
  {
    name: 'every-target-takes',
    does: 'sends a request to every consumer, whatever its conditions say',
    breaks: ['N10'],
    patches: [{
      file: 'core/inbox/targets.ts',
      find: 'if (held.every((each) => each === true)) found.push(target)',
      replace: 'found.push(target)'
    }]
  },
  {
    name: 'replay-unsaid',
    does: 'does not tell a consumer that a delivery is a replay',
    breaks: ['N11'],
    patches: [{ file: 'gateway/inbox/deliver.ts', find: '...isReplay ? REPLAY : []', replace: '...isReplay ? [] : []' }]
  },
  {
    name: 'due-at-once',
    does: 'notes the time of a message, and delivers it at once',
    breaks: ['N12'],
    patches: [{
      file: 'store/postgres/inbox-arrivals.ts',
      find: 'notBefore(message)}, case when',
      replace: '"null::timestamptz"}, case when'
    }]
  },
  {
    name: 'delivers-while-paused',
    does: 'hands out messages of an inbox that an operator has paused',
    breaks: ['N13'],
    patches: [{ file: DELIVER, find: "isPaused(schema, 'w.route')}\n)`", replace: '"false"}\n)`' }]
  },
  {
    name: 'every-take-is-a-trial',
    does: 'hands out messages of an inbox that a gateway has paused, as if each were a trial',
    breaks: ['N13'],
    patches: [{
      file: 'background/deliverer.ts',
      find: 'owner: lease.owner, room, trial }',
      replace: 'owner: lease.owner, room, trial: true }'
    }]
  }
]
