/**
 * The log: one JSON line an event, on stdout. What must never be in it — keys, credentials, bodies, query strings — is
 * kept out twice: the code passes fields that hold none (see {@link hashedKey} and {@link pathOnly}), and what slips in
 * under a known name is redacted here.
 */
import pino from 'pino'
import type { DestinationStream, Logger } from 'pino'
import type { LogLevel } from '../config/config.ts'
import { VERSION } from '../version.ts'

/** Names under which libraries and errors carry what must not be logged, at the top, one and two levels down. */
const SECRET_NAMES = [
  'authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-api-key', 'idempotency-key',
  'password', 'token', 'secret', 'credential', 'key', 'keyText', 'body'
]
/** Names under which URLs stand: shown without credentials and query. */
const URL_NAMES = ['url', 'origin', 'connectionString']
const REDACTED = '[redacted]'

/** Enough to find a record by and to tell two keys apart, too little to be the stored hash. */
const HASHED_KEY_CHARACTERS = 16

export interface LogOptions {
  readonly level: LogLevel
  /** Which gateway process; on every line. */
  readonly instance?: string
  /** Default: stdout. Tests read along here. */
  readonly destination?: DestinationStream
}

export function createLog ({ level, instance, destination }: LogOptions): Logger {
  return pino({
    level,
    base: { service: 'onceway', version: VERSION, ...(instance !== undefined && { instance }) },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: [...SECRET_NAMES, ...URL_NAMES].flatMap(redactPaths), censor },
    serializers: { err: errorFields, error: errorFields }
  }, destination ?? pino.destination({ fd: 1, sync: false }))
}

/** What of a key may stand in a log: the start of its hash, as `records list --key` shows it too. */
export function hashedKey (keyHash: Buffer): string {
  return keyHash.toString('base64url').slice(0, HASHED_KEY_CHARACTERS)
}

/** A request target without its query, which may hold tokens. */
export function pathOnly (target: string): string {
  return target.split(/[?#]/, 1)[0] ?? ''
}

function censor (value: unknown, path: string[]): unknown {
  const isUrl = URL_NAMES.includes(path.at(-1) ?? '')
  return isUrl && typeof value === 'string' ? withoutCredentials(pathOnly(value)) : REDACTED
}

function redactPaths (name: string): string[] {
  const member = /^[A-Za-z]+$/.test(name) ? name : null
  return member === null ? [`["${name}"]`, `*["${name}"]`, `*.*["${name}"]`] : [member, `*.${member}`, `*.*.${member}`]
}

/** Name, message, code and stack down the causes. No other members: drivers hang queries and connection settings on errors. */
function errorFields (error: unknown): unknown {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: unknown }
  return {
    type: error.name,
    message: withoutCredentials(error.message),
    ...(code !== undefined && { code: String(code) }),
    stack: withoutCredentials(error.stack ?? ''),
    ...(error.cause !== undefined && { cause: errorFields(error.cause) })
  }
}

/** `scheme://user:password@` in a message. */
function withoutCredentials (text: string): string {
  return text.replace(/\b([a-z][a-z0-9+.-]*:\/\/)[^\s/@]+@/gi, `$1${REDACTED}@`)
}
