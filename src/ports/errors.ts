/**
 * Faults of other systems, as errors with a code and a cause. Expected outcomes are values (gateway/shared/outcome.ts,
 * core/protocol/problems.ts), never errors.
 */

/** A durable store did not answer, or answered that it cannot. */
export class StoreUnavailable extends Error {
  readonly code = 'ONCEWAY_STORE_UNAVAILABLE'
  /**
   * true: the statement may have been applied, or may be applied later (reply lost, timeout, connection broken).
   * false: it was not applied and never will be (refused, rolled back, never sent).
   */
  readonly inDoubt: boolean
  /** The store itself refused (a lock timeout, a deadlock). It can be reached, and nothing was written. */
  readonly answered: boolean
  readonly store: string

  constructor (store: string, operation: string, inDoubt: boolean, cause?: unknown, answered = false) {
    super(`${store}: ${operation} failed${inDoubt ? ', outcome in doubt' : ''}${cause instanceof Error ? `: ${cause.message}` : ''}`, {
      cause
    })
    this.name = 'StoreUnavailable'
    this.store = store
    this.inDoubt = inDoubt
    this.answered = answered
  }
}

/** The store refused a write for its content (SQLSTATE classes 22, 23, 54 and the like). A retry cannot help (P7). */
export class StoreRejected extends Error {
  readonly code = 'ONCEWAY_STORE_REJECTED'
  readonly store: string

  constructor (store: string, operation: string, cause?: unknown) {
    super(`${store}: ${operation} was refused for its content${cause instanceof Error ? `: ${cause.message}` : ''}`, { cause })
    this.name = 'StoreRejected'
    this.store = store
  }
}

/** A queue of this process is full. Nothing was sent to the store. */
export class StoreOverloaded extends Error {
  readonly code = 'ONCEWAY_STORE_OVERLOADED'

  constructor (queue: string) {
    super(`${queue}: queue is full`)
    this.name = 'StoreOverloaded'
  }
}

/** The store could not do it now, for a reason of the world: not a bug, and not what was asked for. */
export function isOfStore (error: unknown): error is StoreUnavailable | StoreOverloaded {
  return error instanceof StoreUnavailable || error instanceof StoreOverloaded
}

/**
 * onceway cannot start, or a command cannot be carried out. `message` is one sentence for a person and says what to do.
 * `exitCode`: 1 runtime, 2 usage or configuration.
 */
export class StartError extends Error {
  readonly code = 'ONCEWAY_START'
  readonly exitCode: 1 | 2

  constructor (message: string, exitCode: 1 | 2 = 1, cause?: unknown) {
    super(message, { cause })
    this.name = 'StartError'
    this.exitCode = exitCode
  }
}

/**
 * The store's clock shows an earlier time than before. A gateway that served by it would keep records for too short a time, or
 * too long.
 */
export class EarlierTime extends StartError {}

/** The gateway's role lacks rights in the database. An operator can grant them while the gateway waits. Then it serves. */
export class LacksRights extends StartError {}

/** The database refused user or password. With `urlFile` they can change while the gateway waits. */
export class LoginRefused extends StartError {}

/** The gateway has not reached its database yet. The opener (stores.ts) logs the reason, so nothing else needs to. */
export class StoreNotOpened extends StoreUnavailable {
  constructor (store: string, operation: string) {
    super(store, operation, false, new Error('it is not opened yet'))
  }
}

/**
 * Why a network operation failed, for people: the error's code if it has one, else its message. An AggregateError (several
 * addresses of one name) has no message.
 */
export function causeOf (error: unknown): string {
  const innermost = error instanceof StoreUnavailable && error.cause !== undefined ? error.cause : error
  const { code, message = String(innermost) } = innermost as { readonly code?: unknown, readonly message?: string }
  return typeof code === 'string' && /^E[A-Z_]+$/.test(code) ? code : message
}

/** The message of any thrown value. */
export function errorText (error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** The same with its stack, for faults of this program. */
export function errorStack (error: unknown): string {
  return error instanceof Error ? error.stack ?? error.message : String(error)
}
