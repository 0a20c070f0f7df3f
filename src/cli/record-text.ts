/** Records as text for operators. Never a body. Never a key, unless the route keeps its text (`key.store`). */
import { OWNER_BYTES, RECORD_STATES } from '../core/record/record.ts'
import type { RecordState } from '../core/record/record.ts'
import type { RecordJson, RecordSummaryJson } from '../operator/records/schemas.ts'
import { ID_WANTED, readId as idOf } from '../operator/shared/query.ts'
import { StartError } from '../ports/errors.ts'

const BASE64URL_ID = /^[A-Za-z0-9_-]{43}$/

/** The id of a record or of its message: as `Onceway-Key` and the lists show it (base64url), or in hex. */
export function readId (text: string): string {
  const id = idOf(text)
  if (id === null) throw new StartError(ID_WANTED, 2)
  return id.toString('base64url')
}

export function readOwner (text: string): string {
  const bytes = /^[0-9a-fA-F]+$/.test(text) ? Buffer.from(text, 'hex') : null
  if (bytes?.length !== OWNER_BYTES) throw new StartError('--owner must have 32 hex digits, as `records show` prints them.', 2)
  return bytes.toString('hex')
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

export const RECORD_HEADINGS = ['ID', 'STATE', 'ATTEMPT', 'CLAIMED', 'ROUTE', 'REQUEST', 'UNKNOWN BECAUSE'] as const

/** The cells of one table row. */
export function recordCells ({ id, state, attempt, claimedAt, route, method, path, reason }: RecordSummaryJson): string[] {
  return [id, state, String(attempt), claimedAt, route, `${method} ${path}`, reason === null ? '' : `${reason.stage}/${reason.code}`]
}

/** All details of one record, one per line. */
export function recordLines (record: RecordJson, where: string): string[] {
  const { reason, fingerprint, leaseLeftMs, settledAt, settledBy, bodyBytes } = record
  const atOf = (moment: string): string | null => record.history.find(({ what }) => what === moment)?.at ?? null
  const members: Array<[name: string, value: string | number | null]> = [
    ['store', where],
    ['id', record.id],
    ['state', record.state],
    ['owner', record.owner],
    ['attempt', record.attempt],
    ['route', record.route],
    ['request', `${record.method} ${record.path}`],
    ['request id', record.requestId],
    ['trace id', record.traceId],
    ['gateway', record.instance],
    ['key', record.key],
    ['key hash', record.keyHash],
    ['fingerprint', `${fingerprint.value} (algorithm ${fingerprint.alg})`],
    ['claimed', record.claimedAt],
    ['sent', atOf('sent')],
    ['answered', atOf('answered')],
    ['lease left', leaseLeftMs === null ? null : `${leaseLeftMs} ms${leaseLeftMs <= 0 ? ' (over)' : ''}`],
    ['settled', settledAt === null ? null : `${settledAt} by ${settledBy ?? 'nobody'}`],
    ['expires', record.expiresAt],
    ['status', record.status],
    ['body', bodyBytes === null ? null : `${bodyBytes} bytes`],
    ['unknown because', reason === null ? null : `${reason.stage}/${reason.code}`],
    ['upstream asked', record.asking === null ? null : askingText(record.asking)]
  ]
  return members.flatMap(([name, value]) => value === null ? [] : [`${`${name}:`.padEnd(17)}${value}`])
}

/** The state of a record, in one clause. */
export function rowText ({ state, owner, attempt }: { readonly state: string, readonly owner: string, readonly attempt: number }): string {
  return `state ${state}, owner ${owner}, attempt ${attempt}`
}

function askingText ({ tries, againAt, absentSince }: NonNullable<RecordJson['asking']>): string {
  const absent = absentSince === null ? '' : `, not found since ${absentSince}`
  return `${tries} times${absent}, ${againAt === null ? 'given up' : `again at ${againAt}`}`
}

export function timeText (ms: number): string {
  return new Date(ms).toISOString()
}
