/**
 * The log: one JSON line per event, on stdout. Keys, credentials, bodies and query strings must never be in it. Two
 * things keep them out. The code passes fields without them (see {@link hashedKey} and {@link pathOnly}). What is still
 * passed under a known name is redacted here.
 */
import pino from 'pino'
import type { DestinationStream, Logger, LoggerOptions } from 'pino'
import { ACCESS_FIELDS } from '../config/config.ts'
import type { AccessConfig, AccessField, LogLevel } from '../config/config.ts'
import type { LogEvent } from '../ports/log-events.ts'
import type { DeliveryLine, DeliveryLog, Log, PassLine, PassLog, RequestLine, RequestLog } from '../ports/telemetry.ts'
import { VERSION } from '../version.ts'
import { isBuffered, LineBuffer } from './line-buffer.ts'
import type { Buffered } from './line-buffer.ts'
import { Stdout } from './stdout.ts'
import type { WriteSizes } from './stdout.ts'

/** Names under which libraries and errors have secrets, at the top and one or two levels down. */
const SECRET_NAMES = [
  'authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-api-key', 'idempotency-key',
  'password', 'token', 'secret', 'credential', 'key', 'keyText', 'body'
]
/** Names of URLs. They are logged without credentials and query. */
const URL_NAMES = ['url', 'origin', 'connectionString']
const REDACTED = '[redacted]'
/**
 * A pipe takes this much in one piece (PIPE_BUF). Processes that share a pipe must not write more at once. Else a slow
 * reader finds the line of one inside the line of another.
 */
const PIPE_BYTES = 4096

/** Enough to find a record and to tell two keys apart, and too little to be the stored hash. */
const HASHED_KEY_CHARACTERS = 16

export interface LogOptions {
  readonly level: LogLevel
  /** Absent: requests that pass through have no lines. */
  readonly access?: AccessConfig
  /** The gateway process. It is on every line. */
  readonly instance?: string
  /** true: other processes write to the same stdout. */
  readonly shared?: boolean
  /** Default: stdout. Tests read from another one. */
  readonly destination?: DestinationStream
}

export interface Logs {
  readonly log: Log
  /** The one line of each guarded request: the same log, without the search for secrets. */
  readonly requests: RequestLog
  /** The same for the usual results of deliveries from an inbox. */
  readonly deliveries: DeliveryLog
  /** Lines of requests that pass through, as far as they are asked for. */
  readonly passes: PassLog
  /** For a reload. */
  readonly setLevel: (level: LogLevel) => void
  readonly setAccess: (access: AccessConfig) => void
}

export function createLogs ({ level, access = NO_ACCESS, instance, shared = false, ...options }: LogOptions): Logs {
  const writes = shared ? SHARED_WRITES : WRITES
  const { destination = new Stdout(writes) } = options
  const base = { service: 'onceway', version: VERSION, ...(instance !== undefined && { instance }) }
  const members = ascii(JSON.stringify(base)).slice(1, -1)
  const lines = new LineBuffer(destination, writes.minLength)
  const log = pino({
    level,
    base,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: [...SECRET_NAMES, ...URL_NAMES].flatMap(redactPaths), censor },
    serializers: { err: errorFields, error: errorFields },
    hooks: { logMethod: writeAtOnce(destination, lines) }
  }, destination)
  if (destination instanceof Stdout) {
    destination.onDropped = (dropped) => {
      log.warn({ event: 'log-lines-dropped', lines: dropped }, 'this log could not be written for a time, and lines were left out')
    }
    process.once('exit', () => {
      lines.write(false)
      destination.flushLast()
    })
  }
  let passing = access
  return {
    log,
    requests: { note: (line) => { if (log.isLevelEnabled('info')) writeRequest(lines, line, members) } },
    deliveries: { note: (line) => { if (log.isLevelEnabled('info')) writeDelivery(lines, line, members) } },
    passes: {
      takes: () => passing.sample > 0 && log.isLevelEnabled('info') && Math.random() < passing.sample,
      note: (line) => { writePass(lines, line, passing.fields, members) }
    },
    setLevel: (next) => { log.level = next },
    setAccess: (next) => { passing = next }
  }
}

/**
 * As pino writes it, without the search for secrets. The fields are a closed type, and none of them is a secret. It is written field by
 * field, because a loop over the fields would be a fifth of the cost of a replay.
 */
function writeRequest (into: LineBuffer, line: RequestLine, base: string): void {
  begin(into, base, 'request')
  into.text(',"requestId":').text(quoted(line.requestId)).text(',"route":').text(quoted(line.route))
    .text(',"method":').text(quoted(line.method)).text(',"outcome":"').text(line.outcome)
    .text('","status":').integer(line.status).text(',"ms":').hundredths(line.ms).text(',"responseBytes":').integer(line.responseBytes)
  if (line.record !== undefined) into.text(',"record":"').text(line.record).text('"')
  if (line.alike === true) into.text(',"alike":true')
  if (line.keyFrom !== undefined) into.text(',"keyFrom":').text(quoted(line.keyFrom))
  if (line.attempt !== undefined) into.text(',"attempt":').integer(line.attempt)
  if (line.scopeMs !== undefined) into.text(',"scopeMs":').hundredths(line.scopeMs)
  if (line.bodyMs !== undefined) into.text(',"bodyMs":').hundredths(line.bodyMs)
  if (line.fingerprintMs !== undefined) into.text(',"fingerprintMs":').hundredths(line.fingerprintMs)
  if (line.claimMs !== undefined) into.text(',"claimMs":').hundredths(line.claimMs)
  if (line.upstreamMs !== undefined) into.text(',"upstreamMs":').hundredths(line.upstreamMs)
  if (line.settleMs !== undefined) into.text(',"settleMs":').hundredths(line.settleMs)
  if (line.waitMs !== undefined) into.text(',"waitMs":').hundredths(line.waitMs)
  if (line.requestBytes !== undefined) into.text(',"requestBytes":').integer(line.requestBytes)
  if (line.reason !== undefined) into.text(',"reason":').text(quoted(line.reason))
  writeTrace(into, line)
  into.text(',"msg":"guarded"}\n').end()
}

/** The names that collectors of logs look for. */
function writeTrace (into: LineBuffer, { trace }: RequestLine | DeliveryLine): void {
  if (trace !== undefined) into.text(',"trace_id":"').text(trace.traceId).text('","span_id":"').text(trace.spanId).text('"')
}

function begin (into: LineBuffer, base: string, event: LogEvent): void {
  into.text('{"level":"info","time":"').text(isoTime(Date.now())).text('",').text(base).text(',"event":"').text(event).text('"')
}

function writeDelivery (into: LineBuffer, line: DeliveryLine, base: string): void {
  begin(into, base, 'delivery')
  into.text(',"record":"').text(line.record).text('","route":').text(quoted(line.route)).text(',"requestId":').text(quoted(line.requestId))
    .text(',"attempt":').integer(line.attempt).text(',"tries":').integer(line.tries)
    .text(line.replay === true ? REPLAY : '').text(',"result":"').text(line.result).text('","status":').text(String(line.status))
  if (line.error !== undefined) into.text(',"error":').text(quoted(line.error))
  if (line.inMs !== undefined) into.text(',"inMs":').text(String(line.inMs))
  if (line.ms !== undefined) into.text(',"ms":').text(String(line.ms))
  writeTrace(into, line)
  into.text(line.result === 'delivered' ? DELIVERED : NOT_DELIVERED).end()
}

const REPLAY = ',"replay":true'
const DELIVERED = ',"msg":"message delivered"}\n'
const NOT_DELIVERED = ',"msg":"message not delivered; it will be tried again"}\n'

const NO_ACCESS: AccessConfig = { sample: 0, fields: [] }

/** In the order of the closed set, whatever the configuration's order is. */
function writePass (into: LineBuffer, line: PassLine, fields: readonly AccessField[], base: string): void {
  begin(into, base, 'passed')
  for (const field of ACCESS_FIELDS) if (fields.includes(field)) into.text(`,"${field}":${accessValue(line, field)}`)
  into.text(',"msg":"passed"}\n').end()
}

/** As JSON. What a client may make long is cut. */
function accessValue (line: PassLine, field: AccessField): string {
  switch (field) {
    case 'path': return quoted(pathOnly(line.target).slice(0, CLIENT_TEXT_MAX))
    case 'userAgent': return line.userAgent === null ? 'null' : quoted(line.userAgent.slice(0, CLIENT_TEXT_MAX))
    case 'peer': return line.peer === null ? 'null' : quoted(line.peer)
    case 'status': return line.status === 0 ? 'null' : String(line.status)
    case 'ms': return String(Math.round(line.ms * 100) / 100)
    case 'requestBytes': case 'responseBytes': return String(line[field])
    default: return quoted(line[field])
  }
}

const CLIENT_TEXT_MAX = 512

let lastMs = NaN
let lastTime = ''

/** Many lines in a row have the same time. */
function isoTime (wallMs: number): string {
  if (wallMs !== lastMs) {
    lastMs = wallMs
    lastTime = new Date(wallMs).toISOString()
  }
  return lastTime
}

/** JSON needs no escape for it. Almost every value is like that. */
const PLAIN = /^[\w .:/+=@-]*$/

function quoted (text: string): string {
  return PLAIN.test(text) ? `"${text}"` : ascii(JSON.stringify(text))
}

function ascii (json: string): string {
  return json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** `kill -9` loses what a write collects. For every write the destination counts all that it holds, so fewer are cheaper. */
const WRITES: WriteSizes = { minLength: 12 * 1024 }
const SHARED_WRITES: WriteSizes = { minLength: PIPE_BYTES * 3 / 4, maxWrite: PIPE_BYTES }

/**
 * Events are few, and the last ones before a crash often name its reason. So they are written at once. Lines of
 * requests may wait.
 */
function writeAtOnce (destination: DestinationStream, lines: LineBuffer): NonNullable<NonNullable<LoggerOptions['hooks']>['logMethod']> {
  let flushing = false
  let again = false
  const flush = (buffered: Buffered): void => {
    flushing = true
    buffered.flush(() => {
      flushing = false
      if (!again) return
      again = false
      flush(buffered)
    })
  }
  return function (this: Logger, args, method) {
    // Earlier lines are written first.
    lines.write(false)
    method.apply(this, args)
    if (!isBuffered(destination)) return
    // The current flush may have begun before this line was added. So another flush follows.
    again = true
    if (!flushing) flush(destination)
  }
}

/** The part of a key that may be logged: the start of its hash, as in `records list --key`. */
export function hashedKey (keyHash: Buffer): string {
  return keyHash.toString('base64url').slice(0, HASHED_KEY_CHARACTERS)
}

/** A request target without its query, which may contain tokens. */
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

/**
 * Name, message, code and stack of the error and of its causes. Other members are dropped, because drivers put queries
 * and connection settings on errors.
 */
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
