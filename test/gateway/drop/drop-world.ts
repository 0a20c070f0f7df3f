/** The fixture of tests of mode drop: a route that drops, a witness, and marks in memory that can fail. */
import type { TestContext } from 'node:test'
import type { DropPolicy } from '../../../src/core/policy/policy.ts'
import { StoreUnavailable } from '../../../src/ports/errors.ts'
import type { Marks, MarkStore } from '../../../src/ports/marks.ts'
import { MemoryMarks } from '../../../src/store/memory/marks.ts'
import { startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'

export const DROP: DropPolicy = { store: { kind: 'database' }, windowMs: 3_600_000, mark: 'after', onDuplicate: 'drop', status: 200 }

export type MarkOperation = 'mark' | 'done' | 'remove'

export interface FaultyMarks extends Marks {
  /** Replaces the call. `proceed` makes it. */
  readonly faults: Map<MarkOperation, (proceed: () => Promise<unknown>) => Promise<unknown>>
  readonly calls: Map<MarkOperation, number>
}

export function faultyMarks (inner: MarkStore = new MemoryMarks({ capacity: 1_000, nowMs: () => performance.now() })): FaultyMarks {
  const faults: FaultyMarks['faults'] = new Map()
  const calls: FaultyMarks['calls'] = new Map()
  const meet = async <Result> (operation: MarkOperation, proceed: () => Promise<Result>): Promise<Result> => {
    calls.set(operation, (calls.get(operation) ?? 0) + 1)
    return (faults.get(operation)?.(proceed) ?? proceed()) as Promise<Result>
  }
  const store: MarkStore = {
    name: inner.name,
    mark: async (...args) => meet('mark', () => inner.mark(...args)),
    stands: async (...args) => inner.stands(...args),
    done: async (...args) => meet('done', () => inner.done(...args)),
    remove: async (...args) => meet('remove', () => inner.remove(...args))
  }
  return { faults, calls, of: () => store, sweep: async () => 0 }
}

/** Fails, and is certainly not applied. */
export const AWAY = async (): Promise<never> => Promise.reject(new StoreUnavailable('memory', 'mark', false))
/** Fails in doubt, but is applied. */
export const LOST_REPLY = async (proceed: () => Promise<unknown>): Promise<never> => {
  await proceed()
  throw new StoreUnavailable('memory', 'mark', true)
}

export interface DropOptions extends GuardedOptions { readonly drop?: Partial<DropPolicy>, readonly marks?: FaultyMarks }

export interface DropWorld extends Guarded { readonly marks: FaultyMarks }

export async function startDrop (
  t: TestContext,
  { drop = {}, marks = faultyMarks(), policy = {}, world = {}, ...options }: DropOptions = {}
): Promise<DropWorld> {
  const guarded = await startGuarded(t, {
    ...options,
    policy: { profile: 'relay', inFlight: { waitMs: 0, status: 503 }, ...policy, drop: { ...DROP, ...drop } },
    world: { marks, ...world }
  })
  return { ...guarded, marks }
}
