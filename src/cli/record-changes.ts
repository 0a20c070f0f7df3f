/** The changes of one record by an operator: resolve, release, delete. If one is refused, prints the record's current state. */
import { readFileSync } from 'node:fs'
import { encodeHeaders } from '../core/protocol/codec.ts'
import { answerHeaders } from '../core/headers/headers.ts'
import type { RecordDetail, Row, Token } from '../core/record/record.ts'
import { storeText } from '../config/derived.ts'
import { parseDuration } from '../config/read/units.ts'
import { StartError } from '../ports/errors.ts'
import type { AuditEntry, OperatorResult, Resolution } from '../ports/records.ts'
import type { LockStore } from '../ports/locks.ts'
import { requiredOption, textOption, whoAndWhy, integerOption } from './command.ts'
import type { Options } from './command.ts'
import type { CommandContext } from './open-stores.ts'
import { readOwner, rowText } from './record-text.ts'

const RETENTION_DEFAULT_MS = 86_400_000
/** Largest answer that an operator may give. A route may keep no larger one (config/ranges.ts). */
const BODY_BYTES_MAX = 64 * 1024 * 1024
/** Redis connects in the background. This takes milliseconds on one machine, and a few hundred across a region. */
const REDIS_CONNECT_TIMEOUT_MS = 3_000
const REDIS_POLL_MS = 20

export async function resolveRecord (context: CommandContext, record: RecordDetail): Promise<number> {
  const { options, stores } = context
  const status = integerOption(options, 'status', { min: 200, max: 599 })
  if (status === undefined) throw new StartError('--status is required: the status of the upstream\'s answer.', 2)
  const consumed = options.values.consumed === true
  if (consumed && (options.values.header !== undefined || options.values['body-file'] !== undefined)) {
    throw new StartError('--consumed keeps the status only. Omit it, or omit --header and --body-file.', 2)
  }
  const resolution: Resolution = {
    token: tokenOf(options, record),
    outcome: consumed ? 'consumed' : 'completed',
    keepMs: keepMs(context, record),
    status,
    headers: consumed ? null : encodeHeaders(headersOf(options)),
    body: consumed ? null : bodyOf(options),
    by: 'operator',
    tries: null,
    audit: auditOf(options, 'resolve')
  }
  const result = await stores.records.resolve(resolution)
  if (result.kind === 'done') stores.locks.wake(record.id)
  return printResult(
    context,
    record,
    result,
    `Resolved: retries get ${consumed ? '`answer-not-kept`' : 'this answer'}, status ${status}.`
  )
}

export async function releaseRecord (context: CommandContext, record: RecordDetail): Promise<number> {
  const { options, stores } = context
  const result = await stores.records.resolve({
    token: tokenOf(options, record),
    outcome: 'released',
    keepMs: keepMs(context, record),
    status: null,
    headers: null,
    body: null,
    by: 'operator',
    tries: null,
    audit: auditOf(options, 'release')
  })
  return printResult(context, record, result, 'Released: the next request with this key runs again.')
}

/**
 * The row ends two leases from now, when every copy elsewhere has ended (P10). Copies in Redis are removed at once. They are removed again
 * after one lease, because a copy may have been in flight to Redis.
 */
export async function deleteRecord (context: CommandContext, record: RecordDetail): Promise<number> {
  const { options, stores: { records, locks, aheadMs }, terminal } = context
  const result = await records.expire(tokenOf(options, record), auditOf(options, 'delete'))
  const exitCode = printResult(
    context,
    record,
    result,
    `Deleted: the record ends ${aheadMs > 0 ? 'when the clock of the store is trusted again (onceway clock)' : `in ${2 * record.leaseMs} ms at the latest`}.`
  )
  if (exitCode !== 0 || locks.name === 'none') return exitCode
  const cleared = await forget(locks, record.id)
  terminal.out(`Waiting one lease (${record.leaseMs} ms) to clear Redis once more.`)
  await sleep(record.leaseMs)
  const clearedAgain = await forget(locks, record.id)
  if (cleared && clearedAgain) return 0
  terminal.err('onceway: Redis was not available. A copy of the answer may be replayed until it expires there. Run the command again.')
  return 1
}

async function forget (locks: LockStore, id: Buffer): Promise<boolean> {
  const endsAt = performance.now() + REDIS_CONNECT_TIMEOUT_MS
  while (!locks.available() && performance.now() < endsAt) await sleep(REDIS_POLL_MS)
  return locks.forget(id)
}

function printResult ({ options, config, terminal }: CommandContext, record: RecordDetail, result: OperatorResult, done: string): number {
  const id = record.id.toString('base64url')
  if (result.kind === 'done') {
    terminal.out(`${id} in ${storeText(config)}: ${done}`)
    terminal.out(`Before: ${rowText(record)}. Now: ${rowText(result.row)}.`)
    return 0
  }
  const { row, quarantineLeftMs } = result
  const inQuarantine = quarantineLeftMs !== null && quarantineLeftMs > 0
  const why = row !== null && hasToken(row, tokenOf(options, record))
    ? (inQuarantine ? '' : ` ${REFUSALS[row.state]}`)
    : row === null
      ? ''
      : ' It has changed since. Read it again with `records show`.'
  terminal.err(`onceway: refused, nothing changed.${why} ${row === null ? `There is no such record any more in ${storeText(config)}.` : `Now: ${rowText(row)}.`}`)
  if (inQuarantine) terminal.err(`The first sending may still be on its way; it can be released in ${Math.ceil(quarantineLeftMs / 1000)} s.`)
  return 1
}

/** Why a record in this state cannot be changed, and what to do. */
const REFUSALS: Readonly<Record<Row['state'], string>> = {
  claimed: 'Its request is in flight: wait until it has settled.',
  indeterminate: 'Its outcome is unknown: resolve or release it first, then delete it.',
  completed: 'Its outcome is known: only an indeterminate record can be resolved or released.',
  consumed: 'Its outcome is known: only an indeterminate record can be resolved or released.',
  released: 'It is released already: only an indeterminate record can be resolved or released.',
  undecodable: 'This build cannot read it: use the release that wrote it.'
}

function hasToken ({ owner, attempt }: Row, token: Token): boolean {
  return owner.equals(token.owner) && attempt === token.attempt
}

function tokenOf (options: Options, { id }: RecordDetail): Token {
  const attempt = integerOption(options, 'attempt', { min: 1, max: 2_147_483_647 })
  if (attempt === undefined) throw new StartError('--attempt is required, as `records show` prints it.', 2)
  return { id, owner: readOwner(requiredOption(options, 'owner')), attempt }
}

function auditOf (options: Options, action: AuditEntry['action']): AuditEntry {
  return { action, ...whoAndWhy(options) }
}

function keepMs ({ options, config }: CommandContext, { about, leaseMs }: RecordDetail): number {
  const text = textOption(options, 'retention')
  const route = config.routes.find(({ name, idempotency }) => name === about.route && idempotency !== null)
  if (text === undefined) return route?.idempotency?.retentionMs ?? RETENTION_DEFAULT_MS
  const ms = parseDuration(text)
  if (ms === null || ms === 0) throw new StartError('--retention must be a duration: 24h, 7d.', 2)
  // Copies outside the store end one lease before their row. A shorter retention would end before them (P10).
  if (ms < 2 * leaseMs) throw new StartError(`--retention must be at least two leases of the record (${2 * leaseMs}ms).`, 2)
  return ms
}

function headersOf ({ values }: Options): string[] {
  const lines = Array.isArray(values.header) ? values.header : []
  return lines.flatMap((line) => {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff]*)$/.exec(String(line)) ?? []
    if (name === undefined || value === undefined) throw new StartError('--header must have the form \'Name: value\'.', 2)
    if (answerHeaders([name, value]).length === 0) {
      throw new StartError(
        `--header ${name} cannot be stored: the gateway writes framing, connection and Idempotency-* fields itself.`,
        2
      )
    }
    return [name, value.trim()]
  })
}

function bodyOf (options: Options): Buffer {
  const file = textOption(options, 'body-file')
  if (file === undefined) return Buffer.alloc(0)
  try {
    const body = readFileSync(file)
    if (body.length > BODY_BYTES_MAX) throw new StartError(`${file} is too large for an answer (over 64 MiB).`, 2)
    return body
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`, 2, error)
  }
}

function sleep (ms: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, ms) })
}
