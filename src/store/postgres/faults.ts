/**
 * What an error of pg means: certainly undone, refused for its content, or in doubt. Decides by SQLSTATE alone, because the
 * server translates messages and severities. Never turns a doubt into a certainty.
 */
import { DatabaseError } from 'pg'
import { LoginRefused, StartError, StoreRejected, StoreUnavailable } from '../../ports/errors.ts'
import { isLoginRefused } from './login.ts'

const STORE = 'postgres'

/** The server itself reported it: the transaction was rolled back. A batch that failed like this may be tried one by one. */
export class RolledBack extends StoreUnavailable {
  constructor (operation: string, cause: unknown) {
    super(STORE, operation, false, cause, true)
  }
}

export function provenRolledBack (error: unknown): boolean {
  return error instanceof RolledBack || error instanceof StoreRejected
}

/** Undone: another row with the same unique key exists. */
export function isUniqueViolation (error: unknown): boolean {
  return error instanceof StoreRejected && codeOf(error.cause) === '23505'
}

/** Undone by a deadlock. */
export function isDeadlock (error: unknown): boolean {
  return error instanceof RolledBack && codeOf(error.cause) === '40P01'
}

/** Undone: the lock wait took longer than allowed. */
export function hasWaitedInVain (error: unknown): boolean {
  return error instanceof RolledBack && codeOf(error.cause) === '55P03'
}

/** Cancelled by the server: it took longer than its time limit. */
export function isTimeOver (error: unknown): boolean {
  return error instanceof RolledBack && codeOf(error.cause) === '57014'
}

function codeOf (cause: unknown): string | undefined {
  return cause instanceof DatabaseError ? cause.code : undefined
}

/** The statement was sent. `writes` false: a read that failed leaves nothing in doubt. */
export function faultOfStatement (operation: string, error: unknown, writes: boolean): Error {
  if (!(error instanceof DatabaseError) || isInDoubt(error.code)) return new StoreUnavailable(STORE, operation, writes, error)
  // Not an answer of the arbiter: it must not count as contact (E2b), and the rest of its batch would fare no better.
  if (isReplica(error.code)) {
    return new StoreUnavailable(STORE, operation, false, new Error(`the server is read-only, probably a replica (${error.message})`, {
      cause: error
    }))
  }
  if (isForbidden(error)) {
    return new RolledBack(
      operation,
      new Error(`${error.message}; docs/guides/deploy-with-postgres.md (Rights) has the GRANTs of a role that serves and runs commands`, {
        cause: error
      })
    )
  }
  return isContent(error.code) ? new StoreRejected(STORE, operation, error) : new RolledBack(operation, error)
}

/** No connection: nothing was sent. */
export function faultOfConnecting (operation: string, error: unknown): StoreUnavailable {
  return new StoreUnavailable(STORE, operation, false, error)
}

/** A warning came with the reply of a write (cancelled synchronous replication: committed here, perhaps nowhere else). */
export function faultOfWarning (operation: string, warning: string): StoreUnavailable {
  return new StoreUnavailable(STORE, operation, true, new Error(`the reply came with a warning: ${warning}`))
}

/**
 * Whether the connection may be used again after this error. A prepared statement that is gone or stale comes back with a new
 * connection. If this connection leads to a replica, a new one may find the primary. Two time limits of a transaction end the session.
 */
export function leavesConnectionUsable (error: unknown): boolean {
  return error instanceof DatabaseError &&
    !isInDoubt(error.code) &&
    !isReplica(error.code) &&
    !['26000', '0A000', '25P03', '25P04'].includes(error.code ?? '')
}

/** 25006: nothing may be written. 55000: recovery is in progress (only durability.ts asks for what a standby does not have). */
function isReplica (code: string | undefined): boolean {
  return code === '25006' || code === '55000'
}

/** A named statement that is not where it was prepared, or is there already: the session is not ours alone. */
export function isStatementMislaid (error: unknown): boolean {
  return error instanceof DatabaseError && (error.code === '26000' || error.code === '42P05')
}

/** The role lacks a right. */
export function isForbidden (error: unknown): boolean {
  return error instanceof DatabaseError && error.code === '42501'
}

/**
 * 08 connection, 57P the server going down or ending the session, 40003 "completion unknown", XX internal: the commit may
 * have been written before. Without a SQLSTATE nothing is known at all.
 */
function isInDoubt (code: string | undefined): boolean {
  return code === undefined || code === '40003' || ['08', 'XX'].includes(code.slice(0, 2)) || code.startsWith('57P')
}

/** 22 data, 23 constraint, 54 a limit of the server: the same write can never succeed (P7). */
function isContent (code: string | undefined): boolean {
  return ['22', '23', '54'].includes(code?.slice(0, 2) ?? '')
}

/** Faults that waiting cannot mend get one sentence for a person. Any other error is a store that cannot be reached now. */
export function faultOfOpening (error: unknown, address: DatabaseAddress): StartError | StoreUnavailable {
  if (error instanceof StartError || error instanceof StoreUnavailable) return error
  const sentence = error instanceof DatabaseError ? sentenceOf(error, address) : sentenceOfTls(error, address)
  if (sentence === null) return faultOfConnecting('open', error)
  return isLoginRefused(error) ? new LoginRefused(sentence, 1, error) : new StartError(sentence, 1, error)
}

/** For messages. Never contains a password. */
export interface DatabaseAddress {
  readonly user: string
  readonly host: string
  readonly database: string
  readonly schema: string
  /** By TLS. */
  readonly secured: boolean
}

/** A server's certificate does not become another one while we wait. */
function sentenceOfTls (error: unknown, { host }: DatabaseAddress): string | null {
  const { code = '', message = '' } = error instanceof Error ? error as NodeJS.ErrnoException : {}
  // pg's own words, in no other language.
  if (message === 'The server does not support SSL connections') {
    return `Postgres at ${host} does not speak TLS: switch it on there, or take stores.postgres.tls and sslmode out.`
  }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    return `The certificate of Postgres at ${host} is for another name (${message}): write the host in the database URL as the certificate has it.`
  }
  if (code === 'CERT_HAS_EXPIRED' || code === 'CERT_NOT_YET_VALID') {
    return `The certificate of Postgres at ${host} is not valid today (${message}): give the server a new one.`
  }
  if (/CERT|ISSUER|LEAF_SIGNATURE|INVALID_CA/.test(code)) {
    return `The certificate of Postgres at ${host} is signed by nobody that is trusted here (${message}): give its authority as stores.postgres.tls.caFile, or as sslrootcert in the database URL.`
  }
  return null
}

function sentenceOf (error: DatabaseError, { user, host, database, schema, secured }: DatabaseAddress): string | null {
  const code = error.code ?? ''
  if (code === '28000' && !secured) {
    return `Postgres at ${host} refused the user "${user}" (${error.message}): it may demand TLS (stores.postgres.tls, or sslmode=verify-full in the database URL), or not know this name.`
  }
  if (code.startsWith('28')) {
    return `Postgres at ${host} refused the user "${user}" (${error.message}): check the name and the password in the database URL.`
  }
  if (code === '3D000') return `Postgres at ${host} has no database "${database}": create it, or correct the database URL.`
  if (code === '42501') return `The user "${user}" lacks a privilege in database "${database}" (${error.message}): run \`onceway migrate\` as a role that may create the schema "${schema}", and grant "${user}" usage on it and select, insert, update, delete on its tables.`
  if (['42', '3F', '22', '23'].includes(code.slice(0, 2))) {
    return `The schema "${schema}" of database "${database}" could not be used (${error.message}): nothing else may live in it; name another schema or mend this one.`
  }
  return null
}
