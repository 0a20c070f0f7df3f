/**
 * What SQLite's result codes mean to a caller: refused for its content, cannot serve, or cannot start. Errors have the form
 * in which they cross from the worker's thread, because a class is lost on the way. Nothing here guesses whether a write may
 * have been applied. The place that failed says it (database.ts), not the code.
 */
import { errorText, StartError, StoreRejected, StoreUnavailable } from '../../ports/errors.ts'

/** https://www.sqlite.org/rescode.html, primary codes. */
const READONLY = 8
const FULL = 13
const CANTOPEN = 14
const TOOBIG = 18
const CONSTRAINT = 19
const MISMATCH = 20
const CORRUPT = 11
const NOTADB = 26
export const BUSY = 5

/** An error as a message between threads. */
export type Fault =
  | { readonly kind: 'rejected', readonly operation: string, readonly message: string }
  | { readonly kind: 'unavailable', readonly operation: string, readonly message: string, readonly inDoubt: boolean }
  | { readonly kind: 'start', readonly message: string, readonly exitCode: 1 | 2 }

/** Carries a fault up the stack on the thread where it happened. */
export class Faulted extends Error {
  readonly fault: Fault

  constructor (fault: Fault, cause: unknown) {
    super(fault.message, { cause })
    this.name = 'Faulted'
    this.fault = fault
  }
}

/** A value that cannot even be bound (a wrong type, a number out of range) is content too. */
export function faultOf (error: unknown, operation: string, inDoubt: boolean): Fault {
  const message = errorText(error)
  const code = primaryCode(error)
  const content = code === CONSTRAINT || code === TOOBIG || code === MISMATCH || isUnbindable(error)
  return content ? { kind: 'rejected', operation, message } : { kind: 'unavailable', operation, message, inDoubt }
}

/** `operation`: of the one call that gets the error, if a batch had several kinds. */
export function errorOf (fault: Fault, operation?: string): StoreRejected | StoreUnavailable | StartError {
  switch (fault.kind) {
    case 'rejected': return new StoreRejected('sqlite', operation ?? fault.operation, new Error(fault.message))
    case 'unavailable': return new StoreUnavailable('sqlite', operation ?? fault.operation, fault.inDoubt, new Error(fault.message))
    case 'start': return new StartError(fault.message, fault.exitCode)
  }
}

/** Why `file` could not be opened, in a sentence that says what to do. */
export function startFaultOf (error: unknown, file: string): Fault {
  if (error instanceof StartError) return { kind: 'start', message: error.message, exitCode: error.exitCode }
  return { kind: 'start', message: `${file} ${ailment(error)}`, exitCode: 1 }
}

function ailment (error: unknown): string {
  const cause = errorText(error)
  switch (primaryCode(error)) {
    case NOTADB: return `is not a database of onceway (${cause}): move it away, or give another --data-dir.`
    case CORRUPT: return `is damaged (${cause}): restore it from a backup, or give another --data-dir and know that its keys are forgotten.`
    case READONLY: case CANTOPEN:
      return `cannot be written (${cause}): give this user the right to write the file and its directory, or give another --data-dir.`
    case FULL: return `cannot grow (${cause}): free space on its disk, or give another --data-dir.`
    case BUSY: return `is locked by another program (${cause}): end that program, or give another --data-dir.`
    default: return `cannot be opened (${cause}): look at the file and its directory, or give another --data-dir.`
  }
}

export function primaryCode (error: unknown): number | null {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : null
  return typeof code === 'number' ? code & 0xff : null
}

function isUnbindable (error: unknown): boolean {
  const code = error instanceof Error && 'code' in error ? error.code : null
  return code === 'ERR_INVALID_ARG_TYPE' || code === 'ERR_INVALID_ARG_VALUE' || code === 'ERR_OUT_OF_RANGE'
}
