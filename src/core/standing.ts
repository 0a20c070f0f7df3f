/**
 * Which promise holds (docs/guarantees.md, *under which conditions*), judged by what the stores say of their own settings.
 * Pure: who asks them is store/postgres/standing.ts, who tells it background/standing.ts.
 */

/** Why less is promised. A closed set: each is a label of a metric. */
export const WEAKNESSES = ['fsync-off', 'full-page-writes-off', 'synchronous-commit-off', 'asynchronous-standby'] as const
export type Weakness = typeof WEAKNESSES[number]

/** What costs speed and promises no less. */
export type Remark = 'redis-evicts'

/** `reasons` empty: strict. */
export interface Standing { readonly reasons: readonly Weakness[] }

export const STRICT: Standing = { reasons: [] }

/** A standing as it is told: in the log, on /readyz and in a metric. */
export interface ToldStanding extends Standing { readonly promise: 'strict' | 'weakened', readonly remarks: readonly Remark[] }

/** The settings as Postgres names them, for the sessions that write records. */
export interface DurabilitySettings {
  readonly fsync: string
  readonly full_page_writes: string
  readonly synchronous_commit: string
  readonly synchronous_standby_names: string
  /** Standbys that receive the log just now and could be promoted. */
  readonly standbys: number
}

/** Commits wait for a standby: remote_write too, because then only two machines that fail together lose anything. */
const WAITS_FOR_STANDBY: ReadonlySet<string> = new Set(['on', 'remote_apply', 'remote_write'])

/**
 * A primary alone is what the promise asks for: no standby names is no weakness. With a standby beside it that no commit
 * waits for, somebody has it to be promoted one day, and what it lacks then is forgotten: that has to be known before. One that
 * is named counts also while it is away.
 */
export function standingOf (settings: DurabilitySettings): Standing {
  const { fsync, full_page_writes: fullPages, synchronous_commit: commits, synchronous_standby_names: names, standbys } = settings
  const named = names.trim() !== ''
  const waits = named && WAITS_FOR_STANDBY.has(commits)
  const found: Array<[boolean, Weakness]> = [
    [fsync === 'off', 'fsync-off'],
    [fullPages === 'off', 'full-page-writes-off'],
    [commits === 'off', 'synchronous-commit-off'],
    [(standbys > 0 || named) && !waits, 'asynchronous-standby']
  ]
  return { reasons: found.filter(([holds]) => holds).map(([, weakness]) => weakness) }
}

export function told ({ reasons }: Standing, remarks: readonly Remark[]): ToldStanding {
  return { promise: reasons.length === 0 ? 'strict' : 'weakened', reasons, remarks }
}

/** One for all: weak where any of them is. */
export function weakestOf (all: readonly ToldStanding[]): ToldStanding | null {
  if (all.length === 0) return null
  const reasons = WEAKNESSES.filter(weakness => all.some(standing => standing.reasons.includes(weakness)))
  return told({ reasons }, Array.from(new Set(all.flatMap(({ remarks }) => remarks))))
}

/** For a person: what may happen, and what to do about it. */
export const ABOUT_WEAKNESS: Readonly<Record<Weakness, string>> = {
  'fsync-off': 'fsync is off: a crash of the database\'s machine may forget claims, and their requests would be sent again; set fsync = on',
  'full-page-writes-off': 'full_page_writes is off: a crash of the database\'s machine may damage records; set full_page_writes = on',
  'synchronous-commit-off': 'synchronous_commit is off: a crash of the database may forget claims, and their requests would be sent again; set it to on, for this role at least',
  'asynchronous-standby': 'a standby follows that no commit waits for: if it is promoted, the last claims may be missing, and their requests would be sent again; name it in synchronous_standby_names, with synchronous_commit on'
}
