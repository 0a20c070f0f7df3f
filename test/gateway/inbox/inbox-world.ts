/** A guarded route with an inbox in memory and no deliverer: accepted messages stay in the inbox. */
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy, InboxPolicy } from '../../../src/core/policy/policy.ts'
import { recordId } from '../../../src/core/record/record-id.ts'
import type { MessageDetail } from '../../../src/core/inbox/message.ts'
import type { InboxStore } from '../../../src/ports/inbox.ts'
import type { RecordStore } from '../../../src/ports/records.ts'
import { MemoryInbox } from '../../../src/store/memory/inbox.ts'
import { faulty } from '../../harness/faulty-store.ts'
import type { Fault } from '../../harness/faulty-store.ts'
import { startGuarded } from '../../harness/gateway.ts'
import type { Guarded, GuardedOptions } from '../../harness/gateway.ts'

export function inboxPolicy (changes: Partial<InboxPolicy> = {}): InboxPolicy {
  return {
    concurrency: 16,
    ratePerSecond: null,
    total: { concurrency: null, ratePerSecond: null },
    sign: null,
    retryAfter: { kind: 'route' },
    backoff: { firstMs: 1_000, longestMs: 600_000, scheduleMs: null },
    attemptsMax: 50,
    ageMaxMs: 259_200_000,
    pauseAfterMs: null,
    order: null,
    schedule: { at: null, delay: null, longestMs: 604_800_000 },
    onDead: 'skip',
    deadRetentionMs: 2_592_000_000,
    depthMax: 1_000,
    bytesMax: 1024 * 1024,
    keepDeliveredMs: 0,
    keptMax: 1_000,
    keptBytesMax: 1_000_000,
    batch: 'refuse',
    targets: [],
    deadLetter: null,
    ...changes
  }
}

export interface InboxWorld extends Guarded {
  readonly inbox: MemoryInbox
  /** Replaces a call of the inbox. */
  readonly faults: Map<string, Fault>
  readonly calls: (operation: string) => number
  readonly messages: () => Promise<MessageDetail[]>
}

interface InboxWorldOptions extends GuardedOptions {
  readonly inbox?: Partial<InboxPolicy>
  /** An inbox that other gateways share. */
  readonly shared?: MemoryInbox
}

/** `mode: inbox`. */
export async function startInbox (
  t: TestContext,
  { inbox: changes = {}, policy = {}, world = {}, shared, ...options }: InboxWorldOptions = {}
): Promise<InboxWorld> {
  const inbox = shared ?? new MemoryInbox({ nowMs: Date.now })
  const { store, faults, calls } = faulty(inbox as unknown as RecordStore)
  const started = await startGuarded(t, {
    background: false,
    policy: { inbox: inboxPolicy(changes), inboxFor: 'all', ...policy },
    world: { inbox: store as unknown as InboxStore, ...world },
    ...options
  })
  return {
    ...started,
    inbox,
    faults: faults as Map<string, Fault>,
    calls: calls as (operation: string) => number,
    messages: async () => inbox.list({ limit: 100 })
  }
}

/** `async: allowed`. */
export async function startAsync (t: TestContext, { policy = {}, ...options }: InboxWorldOptions = {}): Promise<InboxWorld> {
  const asked: Partial<IdempotencyPolicy> = { inboxFor: 'asked', ...policy }
  return startInbox(t, { policy: asked, ...options })
}

export const ASYNC = { Prefer: 'respond-async' }

/** For a request without a credential on the usual route. */
export function idOf (key: string): Buffer {
  return recordId('things', 'anonymous', key)
}
