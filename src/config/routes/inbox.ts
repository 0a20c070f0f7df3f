/** The `inbox` block: its checks, its policy and its defaults. */
import { isDeepStrictEqual } from 'node:util'
import type { KeySource } from '../../core/policy/key-source.ts'
import { readsBody } from '../../core/key/sources.ts'
import type { InboxPolicy, UpstreamPolicy, ValueSource } from '../../core/policy/policy.ts'
import { checkDeadLetter, deadLetterOf } from './dead-letter.ts'
import { checkDelivered, deliveredOf, ms, valueSourceOf } from './delivered.ts'
import { readKeySources } from './key-source.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import type { IdempotencyFile } from './schema.ts'
import type { InboxFile } from './schema-inbox.ts'
import { checkTargets, targetsOf } from './targets.ts'

export function checkInbox (file: IdempotencyFile, path: Path, upstreams: readonly string[] | null): Mistake[] {
  const { mode, async, inbox: written, key, unknown, retention, onStoreDown } = file
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
    ...checkDelivered(inbox, file, at()),
    ...checkSchedule(inbox, at()),
    ...(ms(retention) < longestMs
      ? [mistake(
          [...path, 'retention'],
        `must be at least inbox.backoff.longest (${backoff.longest}): a sender's own retry may come that late`
        )]
      : []),
    ...checkDeadLetter(inbox, file, at('deadLetter'), upstreams),
    ...checkTargets(file, at('targets'), upstreams),
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
export function inboxOf (file: IdempotencyFile, upstreams: readonly UpstreamPolicy[]): InboxPolicy | null {
  const { mode, async, inbox = INBOX_DEFAULTS } = file
  if (mode !== 'inbox' && async !== 'allowed') return null
  const schedule = scheduleOf(inbox)
  return {
    ...deliveredOf(inbox),
    schedule,
    batch: inbox.batch,
    targets: targetsOf(inbox, schedule, upstreams),
    deadLetter: deadLetterOf(inbox, upstreams)
  }
}

function scheduleOf ({ deliverAt, delay, longestDelay }: InboxFile): InboxPolicy['schedule'] {
  return { at: sourceOf(deliverAt), delay: sourceOf(delay), longestMs: ms(longestDelay) }
}

function checkSchedule ({ deliverAt, delay }: InboxFile, path: Path): Mistake[] {
  const unread = Object.entries({ deliverAt, delay }).filter(([, written]) => written !== undefined && valueSourceOf(written) === null)
  return [
    ...unread.map(([name]) => mistake([...path, name], 'is neither header:NAME nor json:/pointer')),
    // Every request with the value would have both.
    ...(unread.length === 0 && deliverAt !== undefined && isDeepStrictEqual(sourceOf(deliverAt), sourceOf(delay))
      ? [mistake([...path, 'delay'], 'is the same as inbox.deliverAt: no request may have both')]
      : [])
  ]
}

function readSources (from: IdempotencyFile['key']['from']): readonly KeySource[] {
  const read = readKeySources(from)
  // routes/check.ts reports sources that cannot be read.
  return 'value' in read ? read.value : []
}

function sourceOf (written: string | undefined): ValueSource | null {
  return written === undefined ? null : valueSourceOf(written)
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
