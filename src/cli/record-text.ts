/** Records as text for operators. Never a body. Never a key, unless the route keeps its text (`key.store`). */
import { ID_BYTES, OWNER_BYTES, RECORD_STATES } from '../core/record/record.ts'
import type { ProbeDetail, RecordDetail, RecordState, Row } from '../core/record/record.ts'
import { StartError } from '../ports/errors.ts'

const BASE64URL_ID = /^[A-Za-z0-9_-]{43}$/

/** The id of a record or of its message: as `Onceway-Key` and the lists show it (base64url), or in hex. */
export function readId (text: string, what = 'record'): Buffer {
  if (/^[0-9a-fA-F]{64}$/.test(text)) return Buffer.from(text, 'hex')
  const bytes = BASE64URL_ID.test(text) ? Buffer.from(text, 'base64url') : null
  if (bytes?.length !== ID_BYTES) throw new StartError(`The id of a ${what} has 43 characters (base64url) or 64 (hex).`, 2)
  return bytes
}

export function readOwner (text: string): Buffer {
  const bytes = /^[0-9a-fA-F]+$/.test(text) ? Buffer.from(text, 'hex') : null
  if (bytes?.length !== OWNER_BYTES) throw new StartError('--owner must have 32 hex digits, as `records show` prints them.', 2)
  return bytes
}

export function readState (text: string): RecordState {
  const state = RECORD_STATES.find((known) => known === text)
  if (state === undefined) throw new StartError(`--state must be one of ${RECORD_STATES.join(', ')}.`, 2)
  return state
}

/** An id in base64url may start with a dash, and the parser would read it as an option. In hex it never does. */
export function idsAsHex (args: readonly string[]): string[] {
  return args.map((arg) => arg.startsWith('-') && BASE64URL_ID.test(arg) ? Buffer.from(arg, 'base64url').toString('hex') : arg)
}

export function ownerText (owner: Buffer): string {
  return owner.toString('hex')
}

export const RECORD_HEADINGS = ['ID', 'STATE', 'ATTEMPT', 'CLAIMED', 'ROUTE', 'REQUEST', 'UNKNOWN BECAUSE'] as const

/** The cells of one table row. */
export function recordCells ({ id, state, attempt, claimedAtMs, about, reason }: RecordDetail): string[] {
  return [
    id.toString('base64url'),
    state,
    String(attempt),
    timeText(claimedAtMs),
    about.route,
    `${about.method} ${about.path}`,
    reason === null ? '' : `${reason.stage}/${reason.code}`
  ]
}

/** All details of one record, one per line. */
export function recordLines (record: RecordDetail, store: string): string[] {
  const { about, reason } = record
  const members: Array<[name: string, value: string | number | null]> = [
    ['store', store],
    ['id', record.id.toString('base64url')],
    ['state', record.state],
    ['owner', ownerText(record.owner)],
    ['attempt', record.attempt],
    ['route', about.route],
    ['request', `${about.method} ${about.path}`],
    ['request id', about.requestId],
    ['gateway', about.instance],
    ['key', about.keyText],
    ['key hash', about.keyHash.toString('base64url')],
    ['fingerprint', `${record.fingerprint.value.toString('base64url')} (algorithm ${record.fingerprint.alg})`],
    ['claimed', timeText(record.claimedAtMs)],
    ['lease left', record.leaseLeftMs === null ? null : `${record.leaseLeftMs} ms${record.lapsed ? ' (over)' : ''}`],
    ['settled', record.settledAtMs === null ? null : `${timeText(record.settledAtMs)} by ${record.settledBy ?? 'nobody'}`],
    ['expires', record.expiresAtMs === null ? null : timeText(record.expiresAtMs)],
    ['status', record.status],
    ['body', record.body === null ? null : `${record.body.length} bytes`],
    ['unknown because', reason === null ? null : `${reason.stage}/${reason.code}`],
    ['upstream asked', record.probe === null ? null : askingText(record.probe)]
  ]
  return members.flatMap(([name, value]) => value === null ? [] : [`${`${name}:`.padEnd(17)}${value}`])
}

/** The same details as one line of JSON, for programs. */
export function recordJson (record: RecordDetail): string {
  const { about, fingerprint, reason } = record
  return JSON.stringify({
    id: record.id.toString('base64url'),
    state: record.state,
    owner: ownerText(record.owner),
    attempt: record.attempt,
    route: about.route,
    method: about.method,
    path: about.path,
    requestId: about.requestId,
    instance: about.instance,
    key: about.keyText,
    keyHash: about.keyHash.toString('base64url'),
    fingerprint: { alg: fingerprint.alg, value: fingerprint.value.toString('base64url') },
    claimedAt: timeText(record.claimedAtMs),
    leaseLeftMs: record.leaseLeftMs,
    settledAt: record.settledAtMs === null ? null : timeText(record.settledAtMs),
    settledBy: record.settledBy,
    expiresAt: record.expiresAtMs === null ? null : timeText(record.expiresAtMs),
    status: record.status,
    bodyBytes: record.body?.length ?? null,
    reason,
    asking: record.probe === null
      ? null
      : { tries: record.probe.tries, againAt: textOrNull(record.probe.againAtMs), absentSince: textOrNull(record.probe.absentSinceMs) }
  })
}

/** The state of a record, in one clause. */
export function rowText (row: Row): string {
  return `state ${row.state}, owner ${ownerText(row.owner)}, attempt ${row.attempt}`
}

function askingText ({ tries, againAtMs, absentSinceMs }: ProbeDetail): string {
  const absent = absentSinceMs === null ? '' : `, not found since ${timeText(absentSinceMs)}`
  return `${tries} times${absent}, ${againAtMs === null ? 'given up' : `again at ${timeText(againAtMs)}`}`
}

export function textOrNull (ms: number | null): string | null {
  return ms === null ? null : timeText(ms)
}

export function timeText (ms: number): string {
  return new Date(ms).toISOString()
}
