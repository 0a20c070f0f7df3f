/** The `inbox` block: its checks, its policy and its defaults. */
import { isDeepStrictEqual } from 'node:util'
import { isStandardSecret } from '../../core/headers/signature.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import { readsBody } from '../../core/key/sources.ts'
import type { InboxPolicy, ValueSource } from '../../core/policy/policy.ts'
import { readKeySources } from './key-source.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import type { IdempotencyFile } from './schema.ts'
import type { InboxFile } from './schema-inbox.ts'
import { parseDuration, parseSize } from '../read/units.ts'
import { NO_STANDARD_SECRET } from './verify.ts'

export function checkInbox (
  { mode, async, inbox: written, key, unknown, retention, keep, onStoreDown }: IdempotencyFile,
  path: Path
): Mistake[] {
  const at = (...rest: readonly string[]) => [...path, 'inbox', ...rest]
  if (mode === 'drop' && async === 'allowed') {
    return [mistake([...path, 'async'], 'cannot be allowed with mode drop: it keeps no record for both ways')]
  }
  if (mode !== 'inbox' && async !== 'allowed') {
    return written === undefined ? [] : [mistake(at(), 'is not used: mode is not inbox, and async is not allowed', 'key')]
  }
  const inbox = written ?? INBOX_DEFAULTS
  const { backoff, batch } = inbox
  const longestMs = ms(backoff.longest)
  return [
    ...(unknown === 'probe' && mode === 'inbox'
      ? [mistake([...path, 'unknown'], 'cannot be probe with mode inbox: a delivery is repeated (retry) or held (hold)')]
      : []),
    ...(onStoreDown === 'forward' && mode === 'inbox'
      ? [mistake([...path, 'onStoreDown'], 'is not used: mode inbox accepts a request only after the store has it', 'key')]
      : []),
    ...checkOrder(inbox, at()),
    ...checkSchedule(inbox, at()),
    ...checkSign(inbox, mode, at('sign')),
    ...checkBackoff(inbox, at('backoff')),
    ...((parseSize(inbox.maxBytes) ?? 0) < (parseSize(keep.requestBytesMax) ?? 0)
      ? [mistake(
          at('maxBytes'),
        `must be at least keep.requestBytesMax (${keep.requestBytesMax}): a request of that size would never be accepted`
        )]
      : []),
    ...(ms(retention) < longestMs
      ? [mistake(
          [...path, 'retention'],
        `must be at least inbox.backoff.longest (${backoff.longest}): a sender's own retry may come that late`
        )]
      : []),
    ...(ms(inbox.keepDelivered) > ms(retention)
      ? [mistake(
          at('keepDelivered'),
        `must be at most retention (${retention}): the message is deleted then, and its request with it`
        )]
      : []),
    ...(batch === 'split' && inbox.maxDepth < 2
      ? [mistake(at('maxDepth'), 'must be at least 2 with batch: split: a batch of two events would never be accepted')]
      : []),
    // With async: allowed, a request has one key and gets one answer.
    ...(batch === 'split' && mode !== 'inbox' ? [mistake(at('batch'), 'can be split with mode inbox only')] : []),
    ...(batch === 'split' && mode === 'inbox' && !readSources(key.from).some(readsBody)
      ? [mistake(at('batch'), 'cannot be split: key.from has no source in the body, where each event has its key')]
      : [])
  ]
}

/** null: the route has no inbox. Without an `inbox` block it has the defaults. */
export function inboxOf ({ mode, async, inbox = INBOX_DEFAULTS }: IdempotencyFile): InboxPolicy | null {
  if (mode !== 'inbox' && async !== 'allowed') return null
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
    order: sourceOf(inbox.order),
    schedule: { at: sourceOf(inbox.deliverAt), delay: sourceOf(inbox.delay), longestMs: ms(inbox.longestDelay) },
    onDead: inbox.onDead,
    deadRetentionMs: ms(inbox.deadRetention),
    depthMax: inbox.maxDepth,
    bytesMax: parseSize(inbox.maxBytes) ?? 0,
    keepDeliveredMs: ms(inbox.keepDelivered),
    keptMax: inbox.maxKept,
    keptBytesMax: parseSize(inbox.maxKeptBytes) ?? 0,
    batch: inbox.batch
  }
}

function checkOrder ({ order, onDead, retryAfter }: InboxFile, path: Path): Mistake[] {
  const at = (name: string) => [...path, name]
  return [
    ...(onDead === 'stop-group' && order === undefined
      ? [mistake(at('onDead'), 'is not used: without order there are no groups', 'key')]
      : []),
    ...(order === undefined || valueOf(order) !== null ? [] : [mistake(at('order'), 'is neither header:NAME nor json:/pointer')]),
    ...(retryAfterOf(retryAfter) === null
      ? [mistake(at('retryAfter'), 'is none of route, message, group, header:NAME and json:/pointer')]
      : []),
    ...(retryAfter === 'group' && order === undefined
      ? [mistake(at('retryAfter'), 'cannot be group: without order there are no groups')]
      : [])
  ]
}

function checkSchedule ({ deliverAt, delay }: InboxFile, path: Path): Mistake[] {
  const unread = Object.entries({ deliverAt, delay }).filter(([, written]) => written !== undefined && valueOf(written) === null)
  return [
    ...unread.map(([name]) => mistake([...path, name], 'is neither header:NAME nor json:/pointer')),
    // Every request with the value would have both.
    ...(unread.length === 0 && deliverAt !== undefined && isDeepStrictEqual(sourceOf(deliverAt), sourceOf(delay))
      ? [mistake([...path, 'delay'], 'is the same as inbox.deliverAt: no request may have both')]
      : [])
  ]
}

function checkBackoff ({ backoff: { first, longest, schedule }, maxAge, maxAttempts }: InboxFile, path: Path): Mistake[] {
  const inAllMs = (schedule ?? []).reduce((total, pause) => total + ms(pause), 0)
  return [
    ...(ms(longest) < ms(first) ? [mistake([...path, 'longest'], `is shorter than backoff.first (${first})`)] : []),
    ...(schedule !== undefined && maxAttempts !== schedule.length + 1
      ? [mistake([...path, 'schedule'], `has ${schedule.length} pauses, and inbox.maxAttempts is ${maxAttempts}: it must be ${schedule.length + 1}, or absent`)]
      : []),
    ...(inAllMs >= ms(maxAge)
      ? [mistake([...path, 'schedule'], `must be shorter in all than inbox.maxAge (${maxAge}): its last deliveries would never be made`)]
      : [])
  ]
}

function checkSign ({ sign }: InboxFile, mode: IdempotencyFile['mode'], path: Path): Mistake[] {
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

function readSources (from: IdempotencyFile['key']['from']): readonly KeySource[] {
  const read = readKeySources(from)
  // routes/check.ts reports sources that cannot be read.
  return 'value' in read ? read.value : []
}

/** A message that waits holds its group anyway. null: it cannot be read. */
function retryAfterOf (written: string): InboxPolicy['retryAfter'] | null {
  if (written === 'route') return { kind: 'route' }
  if (written === 'message' || written === 'group') return { kind: 'message' }
  const source = valueOf(written)
  return source === null ? null : { kind: 'value', source }
}

function sourceOf (written: string | undefined): ValueSource | null {
  return written === undefined ? null : valueOf(written)
}

function valueOf (written: string): ValueSource | null {
  const read = readKeySources(written)
  const source = 'value' in read ? read.value[0] : undefined
  return source?.kind === 'header' || source?.kind === 'json' ? source : null
}

function ms (text: string): number {
  return parseDuration(text) ?? 0
}

/** The schema's defaults, for a route without an `inbox` block. */
export const INBOX_DEFAULTS: InboxFile = {
  concurrency: 16,
  retryAfter: 'route',
  backoff: { first: '1s', longest: '10m' },
  maxAttempts: 50,
  maxAge: '3d',
  longestDelay: '7d',
  onDead: 'skip',
  deadRetention: '30d',
  maxDepth: 1_000_000,
  maxBytes: '1GiB',
  keepDelivered: '0s',
  maxKept: 1_000_000,
  maxKeptBytes: '1GiB',
  batch: 'refuse'
}
