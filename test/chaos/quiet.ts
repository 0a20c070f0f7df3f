/**
 * After the faults: waits until what the protocol lets go on for a while has ended, or its time is over. Looks only at
 * rows; what is still there then is the checker's to judge.
 */
import { readRows } from './audit.ts'
import type { Written } from './audit.ts'
import type { Stamp } from './stamps.ts'
import { LEASE_MS, UPSTREAM_TIMEOUT_MS } from './routes.ts'
import { pause } from './stores.ts'

/** Hard end (upstream.timeout and twenty seconds for the settle), a lease, E2b's lease, a sweep; and the machine's share. */
const HARD_END_MS = UPSTREAM_TIMEOUT_MS + 20_000 + 3_000
/** A token in doubt is released at once, and once more when its statement cannot be on its way any longer. */
const RELEASED_AGAIN_MS = 14_000
const LOOK_MS = 250

export interface Quiet {
  /** Claimed rows that no time has ended (I9). */
  readonly claimed: readonly Written[]
  /** Lapsed, although their process lives and has sent nothing: it had all the time to say so. */
  readonly abandoned: readonly Written[]
}

export interface Looking {
  readonly database: string
  /** The longest of any gateway. */
  readonly leaseMs?: number
  readonly stamps: () => Promise<readonly Stamp[]>
  /** This process has lived to this moment. */
  readonly isAlive: (instance: string) => boolean
  readonly callsOf: (records: readonly string[]) => ReadonlyMap<string, ReadonlySet<string>>
}

const LEASES = 3

/** `waits`: for doubtful tokens too, which takes many seconds; the faults must have been mended just now. */
export async function becomeQuiet (looking: Looking, waits: boolean): Promise<Quiet> {
  const startedAt = performance.now()
  const { leaseMs = LEASE_MS } = looking
  for (;;) {
    const claimed = await readRows(looking.database, 'state = \'claimed\'')
    const abandoned = await abandonedRows(looking)
    const passedMs = performance.now() - startedAt
    const over = passedMs > HARD_END_MS + LEASES * leaseMs || (claimed.length === 0 && (!waits || passedMs > RELEASED_AGAIN_MS))
    if (over || (claimed.length === 0 && abandoned.length === 0)) return { claimed, abandoned }
    await pause(LOOK_MS)
  }
}

/**
 * A process that dies between its claim and its sending cannot be told from one that died after it. One that lives knows
 * that it has sent nothing, and releases (P6): "unknown" is then said of something that never was.
 */
async function abandonedRows ({ database, stamps, isAlive, callsOf }: Looking): Promise<Written[]> {
  const lapsed = (await readRows(database, 'state = \'indeterminate\' and settled_by = \'lease\'')).filter(({ instance }) =>
    isAlive(instance))
  if (lapsed.length === 0) return []
  const calls = callsOf(lapsed.map(({ record }) => record))
  const sent = new Set((await stamps()).map(({ call, attempt }) => `${call} ${attempt}`))
  return lapsed.filter(({ record, attempt }) => !Array.from(calls.get(record) ?? []).some((call) => sent.has(`${call} ${attempt}`)))
}
