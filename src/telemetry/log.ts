/**
 * The log: one JSON line per event, on stdout. Keys, credentials, bodies and query strings must never be in it. Two
 * things keep them out. The code passes fields without them (see {@link hashedKey} and {@link pathOnly}). What is still
 * passed under a known name is redacted here.
 */
import pino from 'pino'
import type { DestinationStream, Logger, LoggerOptions } from 'pino'
import type { LogLevel } from '../config/config.ts'
import type { LogEvent } from '../ports/log-events.ts'
import type { DeliveryLine, DeliveryLog, Log, RequestLine, RequestLog } from '../ports/telemetry.ts'
import { VERSION } from '../version.ts'

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
  /** For a reload. */
  readonly setLevel: (level: LogLevel) => void
}

export function createLogs ({ level, instance, shared = false, destination = stdout(shared) }: LogOptions): Logs {
  const base = { service: 'onceway', version: VERSION, ...(instance !== undefined && { instance }) }
  const members = ascii(JSON.stringify(base)).slice(1, -1)
  const lines = new LineBuffer(destination, shared ? SHARED_WRITE_BYTES : WRITE_BYTES)
  const log = pino({
    level,
    base,
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }) },
    redact: { paths: [...SECRET_NAMES, ...URL_NAMES].flatMap(redactPaths), censor },
    serializers: { err: errorFields, error: errorFields },
    hooks: { logMethod: writeAtOnce(destination, lines) }
  }, destination)
  // Before pino's own listener, which flushes the destination.
  if (isBuffered(destination)) process.prependListener('exit', () => { lines.write(false) })
  return {
    log,
    requests: { note: (line) => { if (log.isLevelEnabled('info')) lines.add(requestText(line, members)) } },
    deliveries: { note: (line) => { if (log.isLevelEnabled('info')) lines.add(deliveryText(line, members)) } },
    setLevel: (next) => { log.level = next }
  }
}

/**
 * As pino writes it, without the search for secrets. The fields are a closed type, and none of them is a secret. Every
 * character is ASCII. It is written field by field, because a loop over the fields would be a fifth of the cost of a
 * replay.
 */
function requestText (line: RequestLine, base: string): string {
  return beginning(base, 'request') +
    `,"requestId":${quoted(line.requestId)},"route":${quoted(line.route)},"method":${quoted(line.method)},"outcome":"${line.outcome}"` +
    `,"status":${line.status},"ms":${hundredths(line.ms)},"responseBytes":${line.responseBytes}` +
    (line.record === undefined ? '' : `,"record":"${line.record}"`) +
    (line.alike === true ? ',"alike":true' : '') +
    (line.keyFrom === undefined ? '' : `,"keyFrom":${JSON.stringify(line.keyFrom)}`) +
    (line.attempt === undefined ? '' : `,"attempt":${line.attempt}`) +
    timed('scopeMs', line.scopeMs) + timed('bodyMs', line.bodyMs) + timed('fingerprintMs', line.fingerprintMs) +
    timed('claimMs', line.claimMs) + timed('upstreamMs', line.upstreamMs) +
    timed('settleMs', line.settleMs) + timed('waitMs', line.waitMs) +
    (line.requestBytes === undefined ? '' : `,"requestBytes":${line.requestBytes}`) +
    (line.reason === undefined ? '' : `,"reason":${quoted(line.reason)}`) +
    ',"msg":"guarded"}\n'
}

function beginning (base: string, event: LogEvent): string {
  return `{"level":"info","time":"${isoTime(Date.now())}",${base},"event":"${event}"`
}

function deliveryText (line: DeliveryLine, base: string): string {
  return beginning(base, 'delivery') +
    `,"record":"${line.record}","route":${quoted(line.route)},"requestId":${quoted(line.requestId)},"attempt":${line.attempt},"tries":${line.tries}` +
    `,"result":"${line.result}","status":${line.status}` +
    (line.error === undefined ? '' : `,"error":${quoted(line.error)}`) +
    (line.inMs === undefined ? '' : `,"inMs":${line.inMs}`) +
    (line.ms === undefined ? '' : `,"ms":${line.ms}`) +
    `,"msg":"${line.result === 'delivered' ? 'message delivered' : 'message not delivered; it will be tried again'}"}\n`
}

function timed (name: string, ms: number | undefined): string {
  return ms === undefined ? '' : `,"${name}":${hundredths(ms)}`
}

/** Milliseconds to the hundredth. It uses integers, because the text of a fraction costs several times as much. */
function hundredths (ms: number): string {
  const whole = Math.round(ms * 100)
  const rest = whole % 100
  return `${(whole - rest) / 100}.${rest < 10 ? '0' : ''}${rest}`
}

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

/** Bytes that one write collects, and the longest that they wait. `kill -9` loses them. */
const WRITE_BYTES = 12 * 1024
const SHARED_WRITE_BYTES = PIPE_BYTES * 3 / 4
const WRITE_WITHIN_MS = 100

/** Collects lines of requests. For every write the destination counts all that it holds, so fewer writes are cheaper. */
class LineBuffer {
  readonly #destination: DestinationStream
  readonly #bytesMax: number
  /** ASCII: a character is a byte. */
  #text = ''
  #timer: NodeJS.Timeout | null = null

  constructor (destination: DestinationStream, bytesMax: number) {
    this.#destination = destination
    this.#bytesMax = bytesMax
  }

  add (line: string): void {
    if (this.#text.length + line.length > this.#bytesMax) this.write()
    this.#text += line
    this.#timer ??= setTimeout(() => { this.write() }, WRITE_WITHIN_MS).unref()
  }

  /** `flush` false: the code that ends the process flushes the destination. */
  write (flush = true): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    if (this.#text === '') return
    const text = this.#text
    this.#text = ''
    this.#destination.write(text)
    if (flush && isBuffered(this.#destination)) this.#destination.flush(null)
  }
}

interface Buffered extends DestinationStream { readonly flush: (done: (() => void) | null) => void }

function isBuffered (destination: DestinationStream): destination is Buffered {
  return 'flush' in destination
}

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

function stdout (shared: boolean): DestinationStream {
  const bytes = shared ? { minLength: SHARED_WRITE_BYTES, maxWrite: PIPE_BYTES } : { minLength: WRITE_BYTES }
  return pino.destination({ fd: 1, sync: false, periodicFlush: WRITE_WITHIN_MS, ...bytes })
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
