/**
 * After the faults: waits until work that the protocol allows to continue has ended, or its time is over.
 * It only reads rows. The checker judges what is left then.
 */
import { readRows } from './audit.ts'
import type { Written } from './audit.ts'
import type { Stamp } from './stamps.ts'
import { LEASE_MS, UPSTREAM_TIMEOUT_MS } from './routes.ts'
import { pause } from './stores.ts'

/** Hard end (upstream.timeout and twenty seconds for the settle), a lease, E2b's lease, a sweep, and a margin for the machine. */
const HARD_END_MS = UPSTREAM_TIMEOUT_MS + 20_000 + 3_000
/** A token in doubt is released at once, and again when its statement cannot be in flight any more. */
const RELEASED_AGAIN_MS = 14_000
const LOOK_MS = 250

export interface Quiet {
  /** Claimed rows that no time has ended (I9). */
  readonly claimed: readonly Written[]
  /** Lapsed, although their process lives and sent nothing. It had time to release them. */
  readonly abandoned: readonly Written[]
}

export interface Looking {
  readonly database: string
  /** The longest lease of any gateway. */
  readonly leaseMs?: number
  readonly stamps: () => Promise<readonly Stamp[]>
  /** Whether this process is still alive. */
  readonly isAlive: (instance: string) => boolean
  readonly callsOf: (records: readonly string[]) => ReadonlyMap<string, ReadonlySet<string>>
}

const LEASES = 3

/** `waits`: also waits for doubtful tokens, for many seconds. The faults must have ended just before. */
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
 * A process that dies between its claim and its sending looks like one that died after the sending. A live process knows that it sent
 * nothing, and releases (P6). Otherwise "unknown" would be said of a request that was never sent.
 */
async function abandonedRows ({ database, stamps, isAlive, callsOf }: Looking): Promise<Written[]> {
  const lapsed = (await readRows(database, 'state = \'indeterminate\' and settled_by = \'lease\'')).filter(({ instance }) =>
    isAlive(instance))
  if (lapsed.length === 0) return []
  const calls = callsOf(lapsed.map(({ record }) => record))
  const sent = new Set((await stamps()).map(({ call, attempt }) => `${call} ${attempt}`))
  return lapsed.filter(({ record, attempt }) => !Array.from(calls.get(record) ?? []).some((call) => sent.has(`${call} ${attempt}`)))
}
