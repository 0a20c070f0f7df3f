/** The changes of one record by an operator: resolve, release, probe, delete. If one is refused, prints the record's current state. */
import { readFileSync } from 'node:fs'
import type { ChangedRecordJson, RecordJson, ResolveValues, TokenValues } from '../operator/records/schemas.ts'
import { OperatorProblem } from '../operator/shared/problem.ts'
import type { Outcome } from '../operator/shared/problem.ts'
import { StartError } from '../ports/errors.ts'
import type { LockStore } from '../ports/locks.ts'
import { requiredOption, textOption, whoAndWhy, integerOption } from './command.ts'
import type { Options } from './command.ts'
import { must } from './operators.ts'
import { readOwner, rowText } from './record-text.ts'
import { nowOf } from './subcommands.ts'
import type { CommandContext } from './subcommands.ts'

/** Largest answer that an operator may give. A route may keep no larger one (config/ranges.ts). */
const BODY_BYTES_MAX = 64 * 1024 * 1024
/** Redis connects in the background. This takes milliseconds on one machine, and a few hundred across a region. */
const REDIS_CONNECT_TIMEOUT_MS = 3_000
const REDIS_POLL_MS = 20

export async function resolveRecord (context: CommandContext, record: RecordJson): Promise<number> {
  const { options, operators, terminal } = context
  const params = { id: record.id }
  const body = resolveValues(options)
  const result = await operators.call('resolveRecord', { params, body })
  if (!(result instanceof OperatorProblem) || result.code !== 'unusual-answer') return printResult(context, record, result)
  terminal.err(`onceway: note: ${result.detail}`)
  return printResult(context, record, await operators.call('resolveRecord', { params, body: { ...body, unusual: true } }))
}

function resolveValues (options: Options): ResolveValues {
  const status = integerOption(options, 'status', { min: 200, max: 599 })
  if (status === undefined) throw new StartError('--status is required: the status of the upstream\'s answer.', 2)
  const consumed = options.values.consumed === true
  if (consumed && (options.values.header !== undefined || options.values['body-file'] !== undefined)) {
    throw new StartError('--consumed keeps the status only. Omit it, or omit --header and --body-file.', 2)
  }
  return {
    ...tokenOf(options),
    ...retentionOf(options),
    status,
    ...(consumed ? { statusOnly: true } : { headers: headersOf(options), body: bodyOf(options).toString('base64'), encoding: 'base64' })
  }
}

export async function releaseRecord (context: CommandContext, record: RecordJson): Promise<number> {
  const body = { ...tokenOf(context.options), ...retentionOf(context.options) }
  return printResult(context, record, await context.operators.call('releaseRecord', { params: { id: record.id }, body }))
}

export async function probeRecord (context: CommandContext, record: RecordJson): Promise<number> {
  const body = tokenOf(context.options)
  return printResult(context, record, await context.operators.call('probeRecord', { params: { id: record.id }, body }))
}

/**
 * The row ends two leases from now, when every copy elsewhere has ended (P10). Copies in Redis are removed at once. They are removed again
 * after one lease, because a copy may have been in flight to Redis.
 */
export async function deleteRecord (context: CommandContext, record: RecordJson): Promise<number> {
  const { options, operators, terminal } = context
  const { locks } = operators
  const result = await operators.call('deleteRecord', { params: { id: record.id }, body: tokenOf(options) })
  const exitCode = printResult(context, record, result)
  if (exitCode !== 0 || locks === null || locks.name === 'none') return exitCode
  const [id, leaseMs] = [Buffer.from(record.id, 'base64url'), record.leaseMs]
  const cleared = await forget(locks, id)
  terminal.out(`Waiting one lease (${leaseMs} ms) to clear Redis once more.`)
  await sleep(leaseMs)
  const clearedAgain = await forget(locks, id)
  if (cleared && clearedAgain) return 0
  terminal.err('onceway: Redis was not available. A copy of the answer may be replayed until it expires there. Run the command again.')
  return 1
}

async function forget (locks: LockStore, id: Buffer): Promise<boolean> {
  const endsAt = performance.now() + REDIS_CONNECT_TIMEOUT_MS
  while (!locks.available() && performance.now() < endsAt) await sleep(REDIS_POLL_MS)
  return locks.forget(id)
}

function printResult ({ operators, terminal }: CommandContext, before: RecordJson, result: Outcome<ChangedRecordJson>): number {
  if (!(result instanceof OperatorProblem)) {
    terminal.out(`${before.id} in ${operators.where}: ${result.done}`)
    terminal.out(`Before: ${rowText(before)}. Now: ${result.record === null ? 'it is gone' : rowText(result.record)}.`)
    return 0
  }
  if (result.code === 'bad-request') must(result)
  const now = nowOf(result)
  const hasItsOwn = result.code === 'too-early' || (result.code === 'not-found' && now === null)
  const why = hasItsOwn ? '' : ` ${WHY[result.code] ?? result.detail}`
  terminal.err(`onceway: refused, nothing changed.${why} ${now === null
    ? result.code === 'not-found' ? `There is no such record any more in ${operators.where}.` : ''
    : `Now: ${rowText({ owner: '', ...now })}.`}`.trimEnd())
  if (result.code === 'too-early') terminal.err(result.detail)
  return 1
}

const WHY: Readonly<Record<string, string>> = { changed: 'It has changed since. Read it again with `records show`.' }

function tokenOf (options: Options): TokenValues {
  const attempt = integerOption(options, 'attempt', { min: 1, max: 2_147_483_647 })
  if (attempt === undefined) throw new StartError('--attempt is required, as `records show` prints it.', 2)
  const owner = readOwner(requiredOption(options, 'owner'))
  return { owner, attempt, reason: whoAndWhy(options).why }
}

function retentionOf (options: Options): { retention?: string } {
  const retention = textOption(options, 'retention')
  return retention === undefined ? {} : { retention }
}

function headersOf ({ values }: Options): Array<[string, string]> {
  const lines = Array.isArray(values.header) ? values.header : []
  return lines.map((line) => {
    const [, name, value] = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\x20-\x7e\x80-\xff]*)$/.exec(String(line)) ?? []
    if (name === undefined || value === undefined) throw new StartError('--header must have the form \'Name: value\'.', 2)
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
