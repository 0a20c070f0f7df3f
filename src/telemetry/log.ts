/**
 * The log: one JSON line an event, on stdout. What must never be in it — keys, credentials, bodies, query strings — is
 * kept out twice: the code passes fields that hold none (see {@link hashedKey} and {@link pathOnly}), and what slips in
 * under a known name is redacted here.
 */
import pino from 'pino'
import type { DestinationStream, Logger, LoggerOptions } from 'pino'
import type { LogLevel } from '../config/config.ts'
import type { DeliveryLine, DeliveryLog, RequestLine, RequestLog } from '../ports/telemetry.ts'
import { VERSION } from '../version.ts'

/** Names under which libraries and errors carry what must not be logged, at the top, one and two levels down. */
const SECRET_NAMES = [
  'authorization', 'proxy-authorization', 'cookie', 'set-cookie', 'x-api-key', 'idempotency-key',
  'password', 'token', 'secret', 'credential', 'key', 'keyText', 'body'
]
/** Names under which URLs stand: shown without credentials and query. */
const URL_NAMES = ['url', 'origin', 'connectionString']
const REDACTED = '[redacted]'
/**
 * So much goes into a pipe in one piece (PIPE_BUF): processes that share one must not write more at once, or a reader who
 * falls behind finds one's line within another's.
 */
const PIPE_BYTES = 4096

/** Enough to find a record by and to tell two keys apart, too little to be the stored hash. */
const HASHED_KEY_CHARACTERS = 16

export interface LogOptions {
  readonly level: LogLevel
  /** Which gateway process; on every line. */
  readonly instance?: string
  /** true: other processes write to the same stdout. */
  readonly shared?: boolean
  /** Default: stdout. Tests read along here. */
  readonly destination?: DestinationStream
}

export interface Logs {
  readonly log: Logger
  /** For the one line of each guarded request: the same log, without the search for secrets. */
  readonly requests: RequestLog
  /** The same for what most deliveries of an inbox come to. */
  readonly deliveries: DeliveryLog
  /** A reload. */
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
  // Before pino's own listener, which writes out what the destination holds.
  if (isBuffered(destination)) process.prependListener('exit', () => { lines.write(false) })
  return {
    log,
    requests: { note: (line) => { if (log.isLevelEnabled('info')) lines.add(requestText(line, members)) } },
    deliveries: { note: (line) => { if (log.isLevelEnabled('info')) lines.add(deliveryText(line, members)) } },
    setLevel: (next) => { log.level = next }
  }
}

/**
 * As pino writes it, but without the search for secrets: these fields are a closed type, and none of them holds one. Every
 * character is ASCII. Field by field: this is a fifth of what a replay costs if it walks over them.
 */
function requestText (line: RequestLine, base: string): string {
  return beginning(base) +
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

function beginning (base: string): string {
  return `{"level":"info","time":"${isoTime(Date.now())}",${base}`
}

function deliveryText (line: DeliveryLine, base: string): string {
  return beginning(base) +
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

/** Milliseconds to the hundredth. From whole numbers: a fraction as text costs several times as much. */
function hundredths (ms: number): string {
  const whole = Math.round(ms * 100)
  const rest = whole % 100
  return `${(whole - rest) / 100}.${rest < 10 ? '0' : ''}${rest}`
}

let lastMs = NaN
let lastTime = ''

/** Of many lines in a row the time is the same. */
function isoTime (wallMs: number): string {
  if (wallMs !== lastMs) {
    lastMs = wallMs
    lastTime = new Date(wallMs).toISOString()
  }
  return lastTime
}

/** Stands in JSON as it is; almost every value of a line does. */
const PLAIN = /^[\w .:/+=@-]*$/

function quoted (text: string): string {
  return PLAIN.test(text) ? `"${text}"` : ascii(JSON.stringify(text))
}

function ascii (json: string): string {
  return json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

/** Bytes that are gathered into one write, and how long they wait for it: what `kill -9` can take from the log. */
const WRITE_BYTES = 12 * 1024
const SHARED_WRITE_BYTES = PIPE_BYTES * 3 / 4
const WRITE_WITHIN_MS = 100

/** Lines of requests on their way to the destination, which counts all that it holds anew for every piece that it is given. */
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

  /** `flush` false: the destination is flushed by whoever ends the process. */
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

/** Events are few, and what is said before an end by force is most often why: they wait for nothing, lines of requests may. */
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
    // What came before stands before it.
    lines.write(false)
    method.apply(this, args)
    if (!isBuffered(destination)) return
    // What is being written just now is perhaps only what came before: a line that comes meanwhile is not among it.
    again = true
    if (!flushing) flush(destination)
  }
}

function stdout (shared: boolean): DestinationStream {
  const bytes = shared ? { minLength: SHARED_WRITE_BYTES, maxWrite: PIPE_BYTES } : { minLength: WRITE_BYTES }
  return pino.destination({ fd: 1, sync: false, periodicFlush: WRITE_WITHIN_MS, ...bytes })
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
