/**
 * The schemes of a store in memory (core/record/schemes.ts): the one that claims, and the earlier one that is still looked for.
 */
import type { SchemeRows, SwitchOrder, SwitchResult } from '../../core/record/scheme-switch.ts'
import { isNone } from '../../core/record/scheme-switch.ts'
import type { About, Fingerprint } from '../../core/record/record.ts'
import type { LostQuestion } from '../../ports/records.ts'
import { FIRST_SCHEME } from '../../core/record/schemes.ts'
import type { Scheme, Schemes } from '../../core/record/schemes.ts'

/** The part of a record or message that matters to schemes. */
export interface StoredUnderScheme {
  readonly scheme: number
  readonly past: boolean
  readonly fingerprint: Fingerprint
  readonly about: Pick<About, 'route' | 'keyText'>
}

export interface AllStored { readonly records: readonly StoredUnderScheme[], readonly messages: readonly StoredUnderScheme[] }

export class MemorySchemes {
  #current: Scheme
  #earlier: (Scheme & { readonly isLost: boolean, readonly isOver: boolean }) | null = null
  #sinceMs: number

  constructor (name: string, nowMs: number) {
    this.#current = { number: FIRST_SCHEME, name }
    this.#sinceMs = nowMs
  }

  /** The number of the scheme that claims. */
  get number (): number { return this.#current.number }

  isLost (number: number): boolean { return this.#earlier?.isLost === true && this.#earlier.number === number }

  read (nowMs: number): Schemes {
    return { current: this.#current, earlier: this.#earlier === null ? null : { ...this.#earlier, ageMs: nowMs - this.#sinceMs } }
  }

  end (all: AllStored): void {
    if (isNone(countOf(all, ({ scheme }) => scheme < this.number))) this.#earlier &&= { ...this.#earlier, isOver: true }
  }

  switch ({ name, isLost, dryRun }: Pick<SwitchOrder, 'name' | 'isLost' | 'dryRun'>, all: AllStored, nowMs: number): SwitchResult {
    const { number, name: from } = this.#current
    if (name === from) return isLost ? this.#lose(all, dryRun) : { kind: 'same', number }
    const rows = countOf(all, ({ scheme }) => scheme < number)
    if (this.#earlier !== null && !isNone(rows)) return { kind: 'earlier-left', earlier: this.#earlier.name, rows, untilMs: null }
    if (!dryRun) {
      this.#earlier = { ...this.#current, isLost, isOver: false }
      this.#current = { number: number + 1, name }
      this.#sinceMs = nowMs
    }
    return { kind: 'switched', number: number + 1, from, to: name, rows: countOf(all, ({ scheme, past }) => scheme === number && !past) }
  }

  /** Reports the secret of the earlier scheme as lost, after the switch. */
  #lose (all: AllStored, dryRun: boolean): SwitchResult {
    const { number } = this.#current
    const earlier = this.#earlier
    if (earlier === null || earlier.isLost || earlier.isOver) return { kind: 'same', number }
    if (!dryRun) this.#earlier = { ...earlier, isLost: true }
    return { kind: 'lost', number, earlier: earlier.name, rows: countOf(all, ({ scheme, past }) => scheme < number && !past) }
  }
}

/** Those of a lost scheme that are not past. */
function lostOf ({ records, messages }: AllStored, lost: number, of: string): StoredUnderScheme[] {
  return [...records, ...messages].filter(({ scheme, past, about: { route } }) => scheme <= lost && !past && route === of)
}

export function lostAlgorithms (all: AllStored, lost: number, route: string): number[] {
  return [...new Set(lostOf(all, lost, route).map(({ fingerprint: { alg } }) => alg))]
}

export function mayBeLost (all: AllStored, { lost, route, key, fingerprints }: LostQuestion): boolean {
  return lostOf(all, lost, route).some(({ fingerprint, about: { keyText } }) =>
    keyText === null ? fingerprints.some(({ alg, value }) => alg === fingerprint.alg && value.equals(fingerprint.value)) : keyText === key)
}

function countOf ({ records, messages }: AllStored, counts: (stored: StoredUnderScheme) => boolean): SchemeRows {
  return { records: records.filter(counts).length, messages: messages.filter(counts).length, marks: 0 }
}
