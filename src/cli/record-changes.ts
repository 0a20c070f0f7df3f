/** What an operator may do to one record: resolve, release, delete. Prints what changed, or what stands there instead. */
import { readFileSync } from 'node:fs'
import { encodeHeaders } from '../core/protocol/codec.ts'
import { answerHeaders } from '../core/headers/headers.ts'
import type { RecordDetail, Row, Token } from '../core/record/record.ts'
import { storeText } from '../config/compare/store-text.ts'
import { parseDuration } from '../config/read/units.ts'
import { StartError } from '../ports/errors.ts'
import type { AuditEntry, OperatorResult, Resolution } from '../ports/records.ts'
import type { LockStore } from '../ports/locks.ts'
import { required, textOption, whoAndWhy, wholeNumber } from './command.ts'
import type { Options } from './command.ts'
import type { CommandContext } from './open-stores.ts'
import { readOwner, rowText } from './record-text.ts'

const RETENTION_DEFAULT_MS = 86_400_000
/** An answer given by hand; the largest that a route may keep. */
const BODY_BYTES_MAX = 64 * 1024 * 1024
/** Redis connects in the background; on this machine in milliseconds, across a region in a few hundred. */
const REDIS_WITHIN_MS = 3_000
const REDIS_LOOK_EVERY_MS = 20

export async function resolveRecord (context: CommandContext, record: RecordDetail): Promise<number> {
  const { options, stores } = context
  const status = wholeNumber(options, 'status', { min: 200, max: 599 })
  if (status === undefined) throw new StartError('--status is needed: the status of the answer that the upstream gave.', 2)
  const consumed = options.values.consumed === true
  if (consumed && (options.values.header !== undefined || options.values['body-file'] !== undefined)) {
    throw new StartError('--consumed keeps the status alone: without it --header and --body-file are kept.', 2)
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
  return tell(
    context,
    record,
    result,
    `Resolved: retries get ${consumed ? 'to know that it was answered' : 'this answer'}, status ${status}.`
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
  return tell(context, record, result, 'Released: the next request with this key runs again.')
}

/**
 * The row goes two leases from now, so that every copy elsewhere has ended by then; copies in Redis go at once, and
 * once more after a lease, for one that was just being written (P10).
 */
export async function deleteRecord (context: CommandContext, record: RecordDetail): Promise<number> {
  const { options, stores: { records, locks, aheadMs }, terminal } = context
  const result = await records.expire(tokenOf(options, record), auditOf(options, 'delete'))
  const exitCode = tell(
    context,
    record,
    result,
    `Deleted: the record ends ${aheadMs > 0 ? 'when the time of the store is believed again (onceway clock)' : `in ${2 * record.leaseMs} ms at the latest`}.`
  )
  if (exitCode !== 0 || locks.name === 'none') return exitCode
  const told = await forget(locks, record.id)
  terminal.out(`Waiting one lease (${record.leaseMs} ms) to clear Redis once more.`)
  await wait(record.leaseMs)
  const toldAgain = await forget(locks, record.id)
  if (told && toldAgain) return 0
  terminal.err('onceway: Redis could not be told; a copy of the answer may be replayed until it ends there. Run the command again.')
  return 1
}

async function forget (locks: LockStore, id: Buffer): Promise<boolean> {
  const endsAt = performance.now() + REDIS_WITHIN_MS
  while (!locks.available() && performance.now() < endsAt) await wait(REDIS_LOOK_EVERY_MS)
  return locks.forget(id)
}

function tell ({ options, config, terminal }: CommandContext, record: RecordDetail, result: OperatorResult, done: string): number {
  const id = record.id.toString('base64url')
  if (result.kind === 'done') {
    terminal.out(`${id} in ${storeText(config)}: ${done}`)
    terminal.out(`Before: ${rowText(record)}. Now: ${rowText(result.row)}.`)
    return 0
  }
  const { row, quarantineLeftMs } = result
  const isHeld = quarantineLeftMs !== null && quarantineLeftMs > 0
  const why = row !== null && isShown(row, tokenOf(options, record))
    ? (isHeld ? '' : ` ${UNFIT[row.state]}`)
    : row === null
      ? ''
      : ' It has changed since it was shown: look at it again with `records show`.'
  terminal.err(`onceway: refused, nothing changed.${why} ${row === null ? `There is no such record any more in ${storeText(config)}.` : `Now: ${rowText(row)}.`}`)
  if (isHeld) terminal.err(`The first sending may still be on its way; it can be released in ${Math.ceil(quarantineLeftMs / 1000)} s.`)
  return 1
}

/** Why a record in this state cannot be changed as was asked. */
const UNFIT: Readonly<Record<Row['state'], string>> = {
  claimed: 'Its request is under way: wait until it has settled.',
  indeterminate: 'Its outcome is not known: resolve or release it first, and delete it then.',
  completed: 'It is settled, and its outcome known: only an indeterminate record is resolved or released.',
  consumed: 'It is settled, and its outcome known: only an indeterminate record is resolved or released.',
  released: 'It is released already: only an indeterminate record is resolved or released.',
  undecodable: 'This build cannot read it: use the release that wrote it.'
}

function isShown ({ owner, attempt }: Row, token: Token): boolean {
  return owner.equals(token.owner) && attempt === token.attempt
}

function tokenOf (options: Options, { id }: RecordDetail): Token {
  const attempt = wholeNumber(options, 'attempt', { min: 1, max: 2_147_483_647 })
  if (attempt === undefined) throw new StartError('--attempt is needed, as `records show` prints it.', 2)
  return { id, owner: readOwner(required(options, 'owner')), attempt }
}

function auditOf (options: Options, action: AuditEntry['action']): AuditEntry {
  return { action, ...whoAndWhy(options) }
}

function keepMs ({ options, config }: CommandContext, { about, leaseMs }: RecordDetail): number {
  const text = textOption(options, 'retention')
  const route = config.routes.find(({ name, idempotency }) => name === about.route && idempotency !== null)
  if (text === undefined) return route?.idempotency?.retentionMs ?? RETENTION_DEFAULT_MS
  const ms = parseDuration(text)
  if (ms === null || ms === 0) throw new StartError('--retention is a duration: 24h, 7d.', 2)
  // Copies outside the store end one lease before their row: a shorter life would end before them (P10).
  if (ms < 2 * leaseMs) throw new StartError(`--retention is at least two leases of the record (${2 * leaseMs}ms).`, 2)
  return ms
}

function headersOf ({ values }: Options): string[] {
  const lines = Array.isArray(values.header) ? values.header : []
  return lines.flatMap((line) => {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff]*)$/.exec(String(line)) ?? []
    if (name === undefined || value === undefined) throw new StartError('--header is written \'Name: value\'.', 2)
    if (answerHeaders([name, value]).length === 0) {
      throw new StartError(
        `--header ${name} cannot be stored: framing, connection and Idempotency-* fields are the gateway's own to write.`,
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
    if (body.length > BODY_BYTES_MAX) throw new StartError(`${file} is larger than an answer may be (64 MiB).`, 2)
    return body
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`, 2, error)
  }
}

function wait (ms: number): Promise<void> {
  return new Promise((resolve) => { setTimeout(resolve, ms) })
}
