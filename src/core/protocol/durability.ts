/**
 * Which guarantee holds (docs/concepts/guarantees.md, *under which conditions*), judged by the stores' own settings. Pure.
 * store/postgres/durability.ts reads the settings, and background/durability.ts reports the result.
 */

/** Why the guarantee is weaker. A closed set: each is a label of a metric. */
export const WEAKNESSES = [
  'fsync-off', 'full-page-writes-off', 'synchronous-commit-off', 'asynchronous-standby', 'asynchronous-failover'
] as const
export type Weakness = typeof WEAKNESSES[number]

/**
 * What operators should know, and what does not weaken the guarantee now. redis-evicts costs speed. failover-not-strict: commits go on
 * without a standby if none is there. failover-unknown: nobody says how a failover is made.
 */
export type Remark = 'redis-evicts' | 'failover-not-strict' | 'failover-unknown'

/** `reasons` empty: strict. */
export interface Durability { readonly reasons: readonly Weakness[] }

export const STRICT: Durability = { reasons: [] }

/** The durability as it is reported: in the log, on /readyz and in a metric. */
export interface ReportedDurability extends Durability { readonly promise: 'strict' | 'weakened', readonly remarks: readonly Remark[] }

/** The settings as Postgres names them, for the sessions that write records. */
export interface DurabilitySettings {
  readonly fsync: string
  readonly full_page_writes: string
  readonly synchronous_commit: string
  readonly synchronous_standby_names: string
  /** Standbys that receive the log now and could be promoted, by application_name. Two may have the same name. */
  readonly standbys: readonly string[]
  /**
   * Other standbys that could be promoted but do not receive the log now. A physical slot waits for them, or they received it a while ago.
   */
  readonly away: readonly string[]
}

/** Settings with which commits wait for a standby. remote_write is enough: data is lost only if two machines fail together. */
const WAITS_FOR_STANDBY: ReadonlySet<string> = new Set(['on', 'remote_apply', 'remote_write'])

/**
 * The guarantee needs a primary only, so no standby names is no weakness. A standby may be promoted one day. If some commit does not wait
 * for it, that commit is then lost, and operators must know this before. So each standby that could be promoted must be among those that
 * every commit waits for, connected or not.
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

/** `synchronous_standby_names`, parsed. `names`: in lower case. `*` is any. */
export interface StandbyNames { readonly method: 'first' | 'any', readonly count: number, readonly names: readonly string[] }

/** `[FIRST] n (a, b)`, `ANY n (a, b)`, or `a, b`, which is FIRST 1. null: none of these. Postgres would not accept it. */
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
 * Whether each commit waits for every standby. FIRST n waits for the first n that are connected, so it may skip one behind them, or one
 * that is away. ANY n waits for any n. Both wait for all only if there are at most n. A named standby counts even if it was never seen.
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

/** A slot's name has letters, digits and _ only. Other characters of a standby's name become _. */
function asSlot (name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9_]/g, '_')
}

/** A failover manager. synchronous: it promotes only a standby with every acknowledged commit. strict: commits wait for one to be there. */
export interface Failover { readonly synchronous: boolean, readonly strict: boolean }

/** null: it is not known. The settings of the server say what holds now, and the manager may change them at any time. */
export function withFailover ({ reasons }: Durability, failover: Failover | null): Durability {
  return { reasons: failover?.synchronous === false ? [...reasons, 'asynchronous-failover'] : reasons }
}

export function remarksOnFailover (failover: Failover | null): Remark[] {
  if (failover === null) return ['failover-unknown']
  return failover.synchronous && !failover.strict ? ['failover-not-strict'] : []
}

export function reported ({ reasons }: Durability, remarks: readonly Remark[]): ReportedDurability {
  return { promise: reasons.length === 0 ? 'strict' : 'weakened', reasons, remarks }
}

/** The result for several stores: weak if any of them is. */
export function weakestOf (all: readonly ReportedDurability[]): ReportedDurability | null {
  if (all.length === 0) return null
  const reasons = WEAKNESSES.filter((weakness) => all.some((standing) => standing.reasons.includes(weakness)))
  return reported({ reasons }, Array.from(new Set(all.flatMap(({ remarks }) => remarks))))
}

/** For people: what may happen, and what to do. */
export const ABOUT_WEAKNESS: Readonly<Record<Weakness, string>> = {
  'fsync-off': 'fsync is off: a crash of the database\'s machine may forget claims, and their requests would be sent again; set fsync = on',
  'full-page-writes-off': 'full_page_writes is off: a crash of the database\'s machine may damage records; set full_page_writes = on',
  'synchronous-commit-off': 'synchronous_commit is off: a crash of the database may forget claims, and their requests would be sent again; set it to on, for this role at least',
  'asynchronous-standby': 'a standby follows that no commit waits for: if it is promoted, the last claims may be missing, and their requests would be sent again; name it in synchronous_standby_names, with synchronous_commit on and FIRST or ANY as many as there are; drop the slots of standbys that are no more',
  'asynchronous-failover': 'Patroni may promote a standby that lacks the last claims, and their requests would be sent again; set synchronous_mode: true by `patronictl edit-config`'
}
