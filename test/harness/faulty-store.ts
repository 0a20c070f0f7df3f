/** A record store whose calls can be delayed, failed, or stripped of their replies, one kind of call at a time. */
import { StoreRejected, StoreUnavailable } from '../../src/ports/errors.ts'
import type { RecordStore } from '../../src/ports/records.ts'

export type Operation = { [Name in Exclude<keyof RecordStore, 'lanes'>]: RecordStore[Name] extends (
  ...args: never[]
) => Promise<unknown> ? Name : never }[Exclude<keyof RecordStore, 'lanes'>]

/** Replaces the call. It may make it by `proceed`, before or after other events. */
export type Fault = (proceed: () => Promise<unknown>, args: readonly unknown[]) => Promise<unknown>

export interface FaultyStore {
  readonly store: RecordStore
  readonly faults: Map<Operation, Fault>
  readonly calls: (operation: Operation) => number
}

export function faulty (inner: RecordStore): FaultyStore {
  const faults = new Map<Operation, Fault>()
  const counts = new Map<string, number>()
  const store = new Proxy(inner, {
    get (target, name) {
      // Faults are those of the methods, so the store has no other way in.
      if (name === 'lanes') return undefined
      const member: unknown = Reflect.get(target, name, target)
      if (typeof member !== 'function') return member
      return async (...args: unknown[]): Promise<unknown> => {
        counts.set(String(name), (counts.get(String(name)) ?? 0) + 1)
        const proceed = async (): Promise<unknown> => (member.apply(target, args) as Promise<unknown>)
        const fault = faults.get(name as Operation)
        return fault === undefined ? proceed() : fault(proceed, args)
      }
    }
  })
  return { store, faults, calls: (operation) => counts.get(operation) ?? 0 }
}

/** The connection is refused: certainly not applied. */
export const DOWN: Fault = () => Promise.reject(new StoreUnavailable('memory', 'call', false))
/** Fails in doubt, and is not applied. */
export const LOST_REQUEST: Fault = () => Promise.reject(new StoreUnavailable('memory', 'call', true))
/** Fails in doubt, but is applied. */
export const LOST_REPLY: Fault = async (proceed) => {
  await proceed()
  throw new StoreUnavailable('memory', 'call', true)
}
/** The content can never be stored. */
export const REFUSED: Fault = () => Promise.reject(new StoreRejected('memory', 'call'))

/** The first `times` calls get the fault. Later ones go through. */
export function firstly (times: number, fault: Fault): Fault {
  let left = times
  return async (proceed, args) => left-- > 0 ? fault(proceed, args) : proceed()
}

/** Holds calls until `open()`. `reached` resolves with the first of them. */
export function gate (): { readonly fault: Fault, readonly open: () => void, readonly reached: Promise<void> } {
  const opened = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  const fault: Fault = async (proceed) => {
    reached.resolve()
    await opened.promise
    return proceed()
  }
  return { fault, open: opened.resolve, reached: reached.promise }
}

/** Every call that a request or the background makes of the arbiter. */
export function fail (store: FaultyStore, fault: Fault): void {
  for (const operation of [
    'insert', 'take', 'confirm', 'look', 'renew', 'settle', 'settleLost', 'lapse', 'sweep', 'unresolved', 'beat'
  ] as const) {
    store.faults.set(operation, fault)
  }
}
