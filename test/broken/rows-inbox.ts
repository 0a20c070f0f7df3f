/** The rows of rows.ts that are about deliveries of the inbox. `seen`: by each delivery that is numbered. */
import type { FaultRow } from './rows.ts'

const SENDER = 'has its 202'

export const INBOX_ROWS: readonly FaultRow[] = [
  {
    fault: 'inbox: worker stalled or suspended for longer than its lease',
    moment: 'before the first byte of a delivery',
    seen: '0, then 1 as the next delivery',
    record: 'message waits again',
    client: SENDER,
    test: ['inbox/worker-leases.test.ts', 'a lease that ended before the first byte'],
    breaks: 'deliver-unleased'
  },
  {
    fault: 'inbox: worker stalled; its messages have gone to another',
    moment: 'it comes back, and the store takes its sign of life',
    seen: '0 by the old delivery',
    record: 'delivered by another, or anew under a new name',
    client: SENDER,
    test: ['inbox/worker-leases.test.ts', 'a name whose lease was over begins nothing any more'],
    breaks: 'names-heal'
  },
  {
    fault: 'inbox: database down for longer than a lease',
    moment: 'a delivery is under way',
    seen: '1',
    record: 'delivering: the living renew first; then as answered',
    client: SENDER,
    test: ['inbox/worker-leases.test.ts', 'a delivery outlasts an outage of its store'],
    breaks: 'recover-in-the-dark'
  },
  {
    fault: 'inbox: worker dead, with `unknown: hold`',
    moment: 'a delivery is under way',
    seen: '≤ 1',
    record: 'message held, which is an error in the log and counted',
    client: SENDER,
    test: [
      'inbox/worker-leases.test.ts',
      'a message that is held because its worker died is told of and counted as any other that is held'
    ],
    breaks: 'held-in-silence'
  },
  {
    fault: 'inbox: reply lost',
    moment: 'a worker takes messages',
    seen: '0, then 1 as the next delivery',
    record: 'message waits again when the lost name is given up; held where the route says `hold`',
    client: SENDER,
    test: ['inbox/worker-leases.test.ts', 'messages that were handed out in a reply that was lost'],
    breaks: 'lost-takes-stay-lost'
  },
  {
    fault: 'inbox: database forgets an acknowledged settle (asynchronous failover)',
    moment: 'its worker lives on',
    seen: '1, then 1 as the next delivery',
    record: 'delivering until its worker takes another name, within a minute; then as answered',
    client: SENDER,
    test: ['inbox/worker-leases.test.ts', 'a settle that its store has forgotten'],
    breaks: 'names-for-ever'
  }
]
