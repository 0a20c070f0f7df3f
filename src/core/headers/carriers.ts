/**
 * Header fields that name a caller, or choose for whom it acts. The code, the tests and docs/concepts/identity.md share this table.
 * It has names only: caller-scope.ts says what becomes of a field. A field in no table is judged by its name (carrier-names.ts), but only
 * if nothing else names the caller.
 */
import type { CarrierClass, CarrierRow } from './carrier-kinds.ts'
import { ROTATING } from './carriers-rotating.ts'
import { SELECTORS } from './carriers-selector.ts'
import { STABLE } from './carriers-stable.ts'
import { nameFilter } from './name-filter.ts'

export interface Carrier {
  /** Lower case, with `-`. A field spelled with `_` is found by this name too. */
  readonly name: string
  readonly class: CarrierClass
  /** The kind, in a few words, for the documents and for problems. */
  readonly what: string
}

export const CARRIERS: readonly Carrier[] = [
  ...carriersOf('stable', STABLE),
  ...carriersOf('rotating', ROTATING),
  ...carriersOf('selector', SELECTORS)
]

function carriersOf (cls: CarrierClass, rows: readonly CarrierRow[]): Carrier[] {
  return rows.map(([what, name]) => ({ name, class: cls, what }))
}

const BY_NAME: ReadonlyMap<string, Carrier> = new Map(CARRIERS.map((carrier) => [carrier.name, carrier]))

/** false: no carrier has this name, in whatever case. With this filter a request is searched in a third of the time. */
export const mayBeCarrier = nameFilter(CARRIERS.map(({ name }) => name))

/** `lowerName` as it was sent, in lower case. `_` counts as `-`: CGI-like servers cannot tell them apart. */
export function carrierOf (lowerName: string): Carrier | undefined {
  return BY_NAME.get(lowerName.includes('_') ? lowerName.replaceAll('_', '-') : lowerName)
}
