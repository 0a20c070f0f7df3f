/** What operators search for among a million records, and what must be found. */
import { filled } from '../harness/many-records.ts'

export const RECORDS = 1_000_000
/** Of a list, by default. */
export const PAGE = 50

/** Numbers from the newest on that match, as ids. */
export function newest (matches: (n: number) => boolean, limit = PAGE): string[] {
  const ids: string[] = []
  for (let n = RECORDS; n > 0 && ids.length < limit; n--) if (matches(n)) ids.push(filled.id(n).toString('base64url'))
  return ids
}

const isClaimed = (n: number): boolean => n % 5_000 === 1
export const isConsumed = (n: number): boolean => n % 100 === 9
export const MIDDLE = RECORDS / 2 + 3

/** What an operator types, and what must be found. `whole`: the store has to say that nothing is missing. */
export const SEARCHES: ReadonlyArray<{
  readonly fields: Readonly<Record<string, string>>
  readonly query: string
  readonly expected: readonly string[]
  readonly whole: boolean
}> = [
  {
    fields: { 'Record id': filled.id(MIDDLE).toString('base64url') },
    query: `id=${filled.id(MIDDLE).toString('hex')}`,
    expected: [filled.id(MIDDLE).toString('base64url')],
    whole: true
  },
  {
    fields: { 'Idempotency key': filled.key(MIDDLE) },
    query: `key=${filled.key(MIDDLE)}`,
    expected: [filled.id(MIDDLE).toString('base64url')],
    whole: true
  },
  { fields: { State: 'consumed' }, query: 'state=consumed', expected: newest(isConsumed), whole: true },
  { fields: { State: 'claimed' }, query: 'state=claimed', expected: newest(isClaimed), whole: true },
  {
    fields: { 'Claimed since': '1h', Route: 'route-3' }, query: 'from=1h&route=route-3', expected: newest((n) => n % 5 === 3), whole: true
  },
  { fields: { Path: filled.path(42) }, query: `path=${filled.path(42)}`, expected: newest((n) => n % 100 === 42), whole: true },
  {
    fields: { Path: '/v1/charges/7*', Route: 'route-2' },
    query: 'path=/v1/charges/7*&route=route-2',
    expected: newest((n) => [7, 72, 77].includes(n % 100) && n % 5 === 2),
    whole: true
  },
  {
    fields: { 'Request id': filled.requestId(RECORDS - 7_777), 'Claimed since': '1h' },
    query: `requestId=${filled.requestId(RECORDS - 7_777)}&from=1h`,
    expected: [filled.id(RECORDS - 7_777).toString('base64url')],
    whole: true
  },
  // Nothing says when it was: how far two seconds reach depends on the machine.
  {
    fields: { 'Request id': filled.requestId(RECORDS - 77) },
    query: `requestId=${filled.requestId(RECORDS - 77)}`,
    expected: [filled.id(RECORDS - 77).toString('base64url')],
    whole: false
  }
]
export const CHOICES: ReadonlySet<string> = new Set(['State', 'Route'])
