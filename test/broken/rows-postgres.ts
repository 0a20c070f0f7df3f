/** The fault table's rows about what only a Postgres has: standbys that commits wait for, and rows that strangers hold locked. */
import type { FaultRow } from './rows.ts'

export const POSTGRES_ROWS: readonly FaultRow[] = [
  {
    fault: 'commits hang while everything can be read (a synchronous standby is away)',
    moment: 'during an execution, for longer than a lease',
    seen: '1',
    record: 'claimed: only acknowledged writes are contact, and nobody takes it before a lease of that',
    client: 'in flight, then replay',
    test: ['gateway/claim/commits-hang.test.ts', 'while commits hang for longer than a lease nobody takes'],
    breaks: 'reads-are-contact'
  },
  {
    fault: 'database silent for longer than the shortest lease of several',
    moment: 'during an execution',
    seen: '1',
    record: 'claimed: so long a silence ends the contact',
    client: 'in flight',
    test: ['gateway/claim/commits-hang.test.ts', 'a silence that is not noticed is shorter than the shortest lease'],
    breaks: 'silence-of-the-longest-lease'
  },
  {
    fault: 'commit visible and not durable (its wait for the standby was cancelled, or the primary restarted)',
    moment: 'settled; asked for, or settled again',
    seen: '1',
    record: 'completed once the standby has it, or as the promoted standby has it',
    client: '503, or the answer with `Idempotency-Stored: false`, until the standby has it',
    test: ['store/postgres/durable.test.ts', 'is neither replayed nor taken for a settle that was stored'],
    breaks: 'visible-is-durable',
    needs: ['postgres tools']
  },
  {
    fault: 'inbox: commit visible and not durable',
    moment: 'accepted; sent again',
    seen: '0, or as accepted',
    record: 'message waits once the standby has it',
    client: '503 until the standby has it, then 202',
    test: ['store/postgres/durable.test.ts', 'is no reason for a 202'],
    breaks: 'visible-is-durable',
    needs: ['postgres tools']
  },
  {
    fault: 'one row locked by somebody for longer than a lease',
    moment: 'renewal',
    seen: '1',
    record: 'claimed: its renewal stands in line, and is made when the row is let go of',
    client: 'in flight, then replay',
    test: ['store/postgres/lines.test.ts', 'is renewed when it is let go of'],
    breaks: 'nobody-stands-in-line'
  },
  {
    fault: 'one row locked by somebody for longer than a lease',
    moment: 'it is let go of, and somebody lapses',
    seen: '1',
    record: 'claimed: nobody passes who stands in line',
    client: 'in flight, then replay',
    test: ['store/postgres/lines.test.ts', "stays its owner's while he stands in line for another one"],
    breaks: 'barges-in'
  },
  {
    fault: "inbox: a worker's row locked by somebody for longer than its lease",
    moment: 'a delivery is under way',
    seen: '1',
    record: 'delivering; then as answered',
    client: 'has its 202',
    test: ['store/postgres/lines.test.ts', 'a worker is not dead whose row a stranger holds'],
    breaks: 'locked-workers-are-dead'
  }
]
