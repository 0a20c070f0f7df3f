/**
 * What Patroni is told about failovers, which no statement of SQL can read: its dynamic configuration, by the REST API of any member
 * (GET /config, Patroni 3.0).
 */
import type { Failover } from '../../core/protocol/durability.ts'

/** A member that is away or frozen must not hold up the others. */
const MEMBER_MS_MAX = 1_000
/** Of the configuration. One with every parameter of Postgres has less. */
const BYTES_MAX = 256 * 1024

export class PatroniReader {
  readonly #members: readonly string[]
  /** Asked first: the one that answered last. */
  #next = 0
  #last: Failover | null = null

  /** URLs of members. All of a cluster have the same configuration. */
  constructor (members: readonly string[]) {
    this.#members = members
  }

  /** What was read last. null: nothing yet. */
  get last (): Failover | null { return this.#last }

  /** Asks one member after the other until one answers. If none does, the last answer stays. Never rejects. */
  async read (): Promise<Failover | null> {
    for (let asked = 0; asked < this.#members.length; asked++) {
      const found = await readFrom(this.#members[this.#next] ?? '').catch(() => null)
      if (found !== null) {
        this.#last = found
        break
      }
      this.#next = (this.#next + 1) % this.#members.length
    }
    return this.#last
  }
}

/** null: its answer is no configuration. */
async function readFrom (member: string): Promise<Failover | null> {
  const response = await fetch(new URL('/config', member), { signal: AbortSignal.timeout(MEMBER_MS_MAX), redirect: 'error' })
  let text = ''
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    text += Buffer.from(chunk).toString('latin1')
    if (text.length > BYTES_MAX) return null
  }
  if (response.status !== 200) return null
  const { synchronous_mode: mode, synchronous_mode_strict: strict } = JSON.parse(text) as Record<string, unknown>
  return { synchronous: isOn(mode), strict: isOn(strict) }
}

/** As Patroni reads it. `quorum` (Patroni 4) promotes only what has every acknowledged commit too. */
function isOn (value: unknown): boolean {
  return value === true || (typeof value === 'string' && /^(true|on|yes|1|quorum)$/i.test(value))
}
