/** What `inbox` says of a consumer, and a target of its own: its checks and its policy. */
import { isStandardSecret } from '../../core/headers/signature.ts'
import type { InboxPolicy, ValueSource } from '../../core/policy/policy.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { isTree, valueAt } from '../read/tree.ts'
import { parseDuration, parseSize } from '../read/units.ts'
import { readKeySources } from './key-source.ts'
import type { IdempotencyFile } from './schema.ts'
import type { DeliveredFile, SentFile } from './schema-inbox.ts'
import { NO_STANDARD_SECRET } from './verify.ts'

/** `path`: of the block. */
export function checkDelivered (inbox: DeliveredFile, file: IdempotencyFile, path: Path): Mistake[] {
  const { keep } = file
  return [
    ...checkOrder(inbox, path),
    ...checkSent(inbox, file, path),
    ...((parseSize(inbox.maxBytes) ?? 0) < (parseSize(keep.requestBytesMax) ?? 0)
      ? [mistake(
          [...path, 'maxBytes'],
        `must be at least keep.requestBytesMax (${keep.requestBytesMax}): a request of that size would never be accepted`
        )]
      : [])
  ]
}

/** Of any consumer. */
export function checkSent (inbox: SentFile, { mode, retention }: IdempotencyFile, path: Path): Mistake[] {
  const at = (name: string) => [...path, name]
  return [
    ...checkSign(inbox, mode, at('sign')),
    ...checkBackoff(inbox, at('backoff')),
    ...(ms(inbox.keepDelivered) > ms(retention)
      ? [mistake(
          at('keepDelivered'),
        `must be at most retention (${retention}): the message is deleted then, and its request with it`
        )]
      : [])
  ]
}

function checkOrder ({ order, onDead, retryAfter }: DeliveredFile, path: Path): Mistake[] {
  const at = (name: string) => [...path, name]
  return [
    ...(onDead === 'stop-group' && order === undefined
      ? [mistake(at('onDead'), 'is not used: without order there are no groups', 'key')]
      : []),
    ...(order === undefined || valueSourceOf(order) !== null ? [] : [mistake(at('order'), 'is neither header:NAME nor json:/pointer')]),
    ...(retryAfterOf(retryAfter) === null
      ? [mistake(at('retryAfter'), 'is none of route, message, group, header:NAME and json:/pointer')]
      : []),
    ...(retryAfter === 'group' && order === undefined
      ? [mistake(at('retryAfter'), 'cannot be group: without order there are no groups')]
      : [])
  ]
}

function checkBackoff ({ backoff: { first, longest, schedule }, maxAge, maxAttempts }: SentFile, path: Path): Mistake[] {
  const inAllMs = (schedule ?? []).reduce((total, pause) => total + ms(pause), 0)
  return [
    ...(ms(longest) < ms(first) ? [mistake([...path, 'longest'], `is shorter than backoff.first (${first})`)] : []),
    ...(schedule !== undefined && maxAttempts !== schedule.length + 1
      ? [mistake([...path, 'schedule'], `has ${schedule.length} pauses, and inbox.maxAttempts is ${maxAttempts}: it must be ${schedule.length + 1}, or absent`)]
      : []),
    ...(schedule !== undefined && inAllMs >= ms(maxAge)
      ? [mistake([...path, 'schedule'], `must be shorter in all than inbox.maxAge (${maxAge}): its last deliveries would never be made`)]
      : [])
  ]
}

function checkSign ({ sign }: SentFile, mode: IdempotencyFile['mode'], path: Path): Mistake[] {
  if (sign === undefined) return []
  // The consumer would get signed and unsigned requests.
  if (mode !== 'inbox') return [mistake(path, 'can be there with mode inbox only: what is executed at once is not signed', 'key')]
  const unfit = (['secret', 'previousSecret'] as const).filter((name) => sign[name] !== undefined && !isStandardSecret(sign[name]))
  return [
    ...(sign.secret === undefined ? [mistake([...path, 'secret'], 'is missing; write secret or secretFile', 'key')] : []),
    ...unfit.map((name) => mistake([...path, name], NO_STANDARD_SECRET)),
    ...(sign.secret !== undefined && sign.secret === sign.previousSecret
      ? [mistake([...path, 'previousSecret'], 'is the same as secret')]
      : [])
  ]
}

/** A schedule says how many deliveries there are, unless the file does. Before the schema's defaults. */
export function attemptsOfSchedule (inbox: Record<string, unknown>): void {
  for (const consumer of [inbox, inbox.deadLetter]) {
    const schedule = valueAt(consumer, ['backoff', 'schedule'])
    if (isTree(consumer) && Array.isArray(schedule)) consumer.maxAttempts ??= schedule.length + 1
  }
}

export function deliveredOf (inbox: Omit<DeliveredFile, 'deadLetter'>): Omit<InboxPolicy, 'schedule' | 'batch' | 'targets' | 'deadLetter'> {
  return {
    concurrency: inbox.concurrency,
    ratePerSecond: inbox.rate ?? null,
    total: { concurrency: inbox.total?.concurrency ?? null, ratePerSecond: inbox.total?.rate ?? null },
    sign: inbox.sign === undefined ? null : [inbox.sign.secret, inbox.sign.previousSecret].filter((text) => text !== undefined),
    retryAfter: retryAfterOf(inbox.retryAfter) ?? { kind: 'route' },
    backoff: {
      firstMs: ms(inbox.backoff.first),
      longestMs: ms(inbox.backoff.longest),
      scheduleMs: inbox.backoff.schedule?.map(ms) ?? null
    },
    attemptsMax: inbox.maxAttempts,
    ageMaxMs: ms(inbox.maxAge),
    pauseAfterMs: inbox.pauseAfter === undefined ? null : ms(inbox.pauseAfter),
    order: inbox.order === undefined ? null : valueSourceOf(inbox.order),
    onDead: inbox.onDead,
    deadRetentionMs: ms(inbox.deadRetention),
    depthMax: inbox.maxDepth,
    bytesMax: parseSize(inbox.maxBytes) ?? 0,
    keepDeliveredMs: ms(inbox.keepDelivered),
    keptMax: inbox.maxKept,
    keptBytesMax: parseSize(inbox.maxKeptBytes) ?? 0
  }
}

/** A message that waits holds its group anyway. null: it cannot be read. */
function retryAfterOf (written: string): InboxPolicy['retryAfter'] | null {
  if (written === 'route') return { kind: 'route' }
  if (written === 'message' || written === 'group') return { kind: 'message' }
  const source = valueSourceOf(written)
  return source === null ? null : { kind: 'value', source }
}

/** null: it is neither a header nor a member of a JSON body. */
export function valueSourceOf (written: string): ValueSource | null {
  const read = readKeySources(written)
  const source = 'value' in read ? read.value[0] : undefined
  return source?.kind === 'header' || source?.kind === 'json' ? source : null
}

export function ms (text: string): number {
  return parseDuration(text) ?? 0
}
