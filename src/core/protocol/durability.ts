/**
 * Which promise holds (docs/concepts/guarantees.md, *under which conditions*), judged by what the stores say of their own settings.
 * Pure: who asks them is store/postgres/durability.ts, who tells it background/durability.ts.
 */

/** Why less is promised. A closed set: each is a label of a metric. */
export const WEAKNESSES = ['fsync-off', 'full-page-writes-off', 'synchronous-commit-off', 'asynchronous-standby'] as const
export type Weakness = typeof WEAKNESSES[number]

/** What costs speed and promises no less. */
export type Remark = 'redis-evicts'

/** `reasons` empty: strict. */
export interface Durability { readonly reasons: readonly Weakness[] }

export const STRICT: Durability = { reasons: [] }

/** A standing as it is told: in the log, on /readyz and in a metric. */
export interface ReportedDurability extends Durability { readonly promise: 'strict' | 'weakened', readonly remarks: readonly Remark[] }

/** The settings as Postgres names them, for the sessions that write records. */
export interface DurabilitySettings {
  readonly fsync: string
  readonly full_page_writes: string
  readonly synchronous_commit: string
  readonly synchronous_standby_names: string
  /** Standbys that receive the log just now and could be promoted, each by its application_name; two may have the same. */
  readonly standbys: readonly string[]
  /** Others that could be, and do not receive it: a physical slot waits for them, or they did a while ago. */
  readonly away: readonly string[]
}

/** Commits wait for a standby: remote_write too, because then only two machines that fail together lose anything. */
const WAITS_FOR_STANDBY: ReadonlySet<string> = new Set(['on', 'remote_apply', 'remote_write'])

/**
 * A primary alone is what the promise asks for: no standby names is no weakness. With a standby beside it that some commit
 * does not wait for, somebody has it to be promoted one day, and what it lacks then is forgotten: that has to be known before. So
 * each that could be promoted must be among those that every commit waits for, whether it is there just now or away.
 */
export function durabilityOf (settings: DurabilitySettings): Durability {
  const { fsync, full_page_writes: fullPages, synchronous_commit: commits, synchronous_standby_names: names, standbys, away } = settings
  const named = names.trim() !== ''
  const waits = named && WAITS_FOR_STANDBY.has(commits) && waitsForAll(readStandbyNames(names), standbys, away)
  const found: Array<[boolean, Weakness]> = [
    [fsync === 'off', 'fsync-off'],
    [fullPages === 'off', 'full-page-writes-off'],
    [commits === 'off', 'synchronous-commit-off'],
    [(standbys.length + away.length > 0 || named) && !waits, 'asynchronous-standby']
  ]
  return { reasons: found.filter(([holds]) => holds).map(([, weakness]) => weakness) }
}

/** `synchronous_standby_names`, read. `names`: in lower case, `*` is any. */
export interface StandbyNames { readonly method: 'first' | 'any', readonly count: number, readonly names: readonly string[] }

/** `[FIRST] n (a, b)`, `ANY n (a, b)`, or `a, b`, which is FIRST 1. null: none of it, which Postgres would not have taken. */
export function readStandbyNames (text: string): StandbyNames | null {
  const [, method = 'first', count = '1', list = text] = COUNTED.exec(text) ?? []
  const names = Array.from(list.matchAll(NAME), ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? '')
  const sound = names.length > 0 && LIST.test(list)
  return sound
    ? { method: method.toLowerCase() === 'any' ? 'any' : 'first', count: Number(count), names: names.map((name) => name.toLowerCase()) }
    : null
}

const COUNTED = /^\s*(?:(first|any)\s+)?([0-9]+)\s*\(([^]*)\)\s*$/i
const NAME = /"((?:[^"]|"")*)"|([^\s,"()]+)/g
const LIST = /^\s*(?:"(?:[^"]|"")*"|[^\s,"()]+)\s*(?:,\s*(?:"(?:[^"]|"")*"|[^\s,"()]+)\s*)*$/

/**
 * Does each commit wait for each of them? FIRST n waits for the first n that are there, so that one behind them is passed over, and
 * one before them while it is away; ANY n for any. Both wait for all only where there are no more than n. One that is
 * named counts also while nothing of it is seen.
 */
function waitsForAll (wanted: StandbyNames | null, standbys: readonly string[], away: readonly string[]): boolean {
  if (wanted === null) return false
  const { count, names } = wanted
  const isAny = names.includes('*')
  if (!standbys.every((name) => isAny || names.includes(name.toLowerCase()))) return false
  if (!away.every((name) => isAny || names.some((listed) => asSlot(listed) === asSlot(name)))) return false
  const seen = [...standbys, ...away].map(asSlot)
  const unseen = names.filter((name) => name !== '*' && !seen.includes(asSlot(name)))
  return seen.length + unseen.length <= count
}

/** A slot's name has letters, digits and _ only: whoever names slots after standbys writes the rest so. */
function asSlot (name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9_]/g, '_')
}

export function reported ({ reasons }: Durability, remarks: readonly Remark[]): ReportedDurability {
  return { promise: reasons.length === 0 ? 'strict' : 'weakened', reasons, remarks }
}

/** One for all: weak where any of them is. */
export function weakestOf (all: readonly ReportedDurability[]): ReportedDurability | null {
  if (all.length === 0) return null
  const reasons = WEAKNESSES.filter((weakness) => all.some((standing) => standing.reasons.includes(weakness)))
  return reported({ reasons }, Array.from(new Set(all.flatMap(({ remarks }) => remarks))))
}

/** For a person: what may happen, and what to do about it. */
export const ABOUT_WEAKNESS: Readonly<Record<Weakness, string>> = {
  'fsync-off': 'fsync is off: a crash of the database\'s machine may forget claims, and their requests would be sent again; set fsync = on',
  'full-page-writes-off': 'full_page_writes is off: a crash of the database\'s machine may damage records; set full_page_writes = on',
  'synchronous-commit-off': 'synchronous_commit is off: a crash of the database may forget claims, and their requests would be sent again; set it to on, for this role at least',
  'asynchronous-standby': 'a standby follows that no commit waits for: if it is promoted, the last claims may be missing, and their requests would be sent again; name it in synchronous_standby_names, with synchronous_commit on and FIRST or ANY as many as there are; drop the slots of standbys that are no more'
}
