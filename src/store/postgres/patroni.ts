/**
 * What Patroni is told about failovers, which no statement of SQL can read: its dynamic configuration, by the REST API of any member
 * (GET /config, Patroni 3.0).
 */
import type { Failover } from '../../core/protocol/durability.ts'

/** A member that is frozen never answers. What SQL says about durability waits for the members: twice this at most. */
const MEMBER_MS_MAX = 1_000
/** Of the configuration. One with every parameter of Postgres has less. */
const BYTES_MAX = 256 * 1024

export class PatroniReader {
  /** The one that answered last comes first. */
  #members: readonly string[]
  #last: Failover | null = null

  /** URLs of members. All of a cluster have the same configuration. */
  constructor (members: readonly string[]) {
    this.#members = members
  }

  /** What was read last. null: nothing yet. */
  get last (): Failover | null { return this.#last }

  /** Asks one member, and all others at once if it does not answer. If none does, the last answer stays. Never rejects. */
  async read (): Promise<Failover | null> {
    return await this.#ask(this.#members.slice(0, 1)) ?? await this.#ask(this.#members.slice(1)) ?? this.#last
  }

  async #ask (members: readonly string[]): Promise<Failover | null> {
    const found = await Promise.any(members.map(async (member) => [member, await readFrom(member)] as const)).catch(() => null)
    if (found === null) return null
    const [member, failover] = found
    this.#members = [member, ...this.#members.filter((other) => other !== member)]
    this.#last = failover
    return failover
  }
}

/** Rejects if its answer is no configuration. */
async function readFrom (member: string): Promise<Failover> {
  const response = await fetch(new URL('/config', member), { signal: AbortSignal.timeout(MEMBER_MS_MAX), redirect: 'error' })
  let text = ''
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString('latin1')
    if (text.length > BYTES_MAX) throw new RangeError('the answer of Patroni is too large')
  }
  if (response.status !== 200) throw new Error(`Patroni answers ${response.status}`)
  const { synchronous_mode: mode, synchronous_mode_strict: strict } = JSON.parse(text) as Record<string, unknown>
  return { synchronous: isOn(mode), strict: isOn(strict) }
}

/** As Patroni reads it. `quorum` (Patroni 4) promotes only what has every acknowledged commit too. */
function isOn (value: unknown): boolean {
  return value === true || (typeof value === 'string' && /^(true|on|yes|1|quorum)$/i.test(value))
}
