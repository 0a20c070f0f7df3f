/** What the suites of marks build their cases from. A driver's test gives worlds, and registers their closing with `t.after`. */
import { randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Identity } from '../../src/core/record/record-id.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { MarkEnding, Marking, MarkStore } from '../../src/ports/marks.ts'
import type { SwitchScheme } from './record-world.ts'

export interface MarkWorld {
  readonly store: MarkStore
  /** A second client of the same store, as another process would have. Absent: the same one. */
  readonly second?: MarkStore
  /** Another scheme claims in the store's database from now on. Absent: the store has none. */
  readonly switchScheme?: SwitchScheme
  /** Moves the store's clock. Absent: real time passes. */
  readonly advance?: (ms: number) => void
}

export type OpenMarks = (t: TestContext) => Promise<MarkWorld>

export interface FilterWorld extends MarkWorld {
  /** To the first moment of the window after the next `windows - 1`. */
  readonly nextWindow: (windows: number) => Promise<void> | void
}

export interface FilterOptions { readonly capacity: number, readonly errorRate: number }

export type OpenFilter = (t: TestContext, options: FilterOptions) => Promise<FilterWorld>

/** By the first scheme, before which there was none. */
const FIRST = { scheme: FIRST_SCHEME, earlierId: null } as const

export function markingOf (id: Buffer, token: Buffer, as: Marking['as'], keepMs: number, over: Partial<Identity> = {}): Marking {
  return { id, ...FIRST, token, as, keepMs, ...over }
}

export function endingOf (id: Buffer, token: Buffer, keepMs: number, over: Partial<Identity> = {}): MarkEnding {
  return { id, ...FIRST, token, keepMs, ...over }
}

export const newId = (): Buffer => randomBytes(32)
export const newToken = (): Buffer => randomBytes(16)
