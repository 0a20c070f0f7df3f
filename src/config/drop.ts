/** `mode: drop` as it is written: its shape, what goes with what, and its policy. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { FILTER_BYTES_MAX, filterBytes } from '../core/bloom.ts'
import type { DropPolicy, DropStore } from '../core/policy.ts'
import { mistake } from './problem.ts'
import type { Mistake, Path } from './problem.ts'
import type { IdempotencyFile } from './schema-route.ts'
import { DURATION_PATTERN, parseDuration } from './units.ts'

/** Entries where the file says nothing: some thirty megabytes in memory, four in a filter's two halves. */
const CAPACITY = { memory: 100_000, bloom: 1_000_000 } as const
/** Above it an in-process list is the wrong tool. */
const MEMORY_ENTRIES_MAX = 10_000_000
const ERROR_RATE = 0.001

export const Drop = Type.Object({
  store: Type.Enum(['database', 'redis', 'memory', 'bloom'], { default: 'database', description: 'Where marks are kept. database: Postgres, or the embedded store. redis: lost with Redis. memory: in this process only. bloom: fixed memory, in Redis or else in this process. With bloom, a share of `errorRate` of new events is taken for duplicates and lost.' }),
  window: Type.String({ pattern: DURATION_PATTERN, default: '1h', description: 'How long a forwarded event is remembered. bloom: at least so long, at most twice as long.' }),
  mark: Type.Enum(['after', 'before'], { default: 'after', description: 'after: mark an event when the upstream has accepted it. It may be duplicated and is never lost. before: mark it when it is forwarded. It is sent at most once, and **an event whose forwarding fails is lost**.' }),
  onDuplicate: Type.Enum(['drop', 'flag'], { default: 'drop', description: 'drop: answer a duplicate without forwarding it. flag: forward it with `Onceway-Duplicate: true`.' }),
  status: Type.Enum([200, 201, 202, 204], { default: 200, description: 'Status of the answer to a duplicate. The body is empty.' }),
  capacity: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: 'memory: maximum of entries, default 100000. The least recently used is evicted. bloom: events in one window, default 1000000. With more, the error rate rises.' })),
  errorRate: Type.Optional(Type.Number({ minimum: 0.000001, maximum: 0.1, description: 'bloom: the share of new events that are taken for duplicates at `capacity`. Default: 0.001.' }))
}, { additionalProperties: false, description: 'Mode drop: which duplicates are dropped. See docs/guides/drop-duplicates.md.' })

export type DropFile = Static<typeof Drop>

/** What mode drop has no use for: what the file says there would be believed in vain. */
function meaningless ({ unknown, fingerprint, onMismatch }: IdempotencyFile): Array<[name: string, message: string]> {
  const why = 'says nothing with mode drop'
  return [
    ...(unknown === 'probe' ? [['unknown', 'cannot be probe with mode drop: drop.mark says what becomes of an event of unknown outcome'] as [string, string]] : []),
    ...(fingerprint === undefined ? [] : [['fingerprint', `${why}: an event is its key, and nothing is compared`] as [string, string]]),
    ...(onMismatch.action === 'replay' ? [['onMismatch', `${why}: nothing is compared, and nothing is replayed`] as [string, string]] : [])
  ]
}

/** `redis`: there is one, and a Postgres that it is used with. */
export function checkDrop (policy: IdempotencyFile, path: Path, redis: boolean): Mistake[] {
  const { mode, drop } = policy
  const at = (name: string) => [...path, 'drop', name]
  if (mode !== 'drop') return drop === undefined ? [] : [mistake([...path, 'drop'], 'is not used: mode is not drop', 'key')]
  if (drop === undefined) return []
  const { store, capacity, errorRate } = drop
  return [
    ...meaningless(policy).map(([name, message]) => mistake([...path, name], message, 'key')),
    ...(store === 'redis' && !redis ? [mistake(at('store'), 'is redis, and there is none: stores.postgres and stores.redis must be given (Redis is used with Postgres only)')] : []),
    ...(capacity !== undefined && store !== 'memory' && store !== 'bloom' ? [mistake(at('capacity'), `is not used: store ${store} keeps every event of its window`, 'key')] : []),
    ...(errorRate !== undefined && store !== 'bloom' ? [mistake(at('errorRate'), 'is not used: only bloom errs', 'key')] : []),
    ...(store === 'memory' && (capacity ?? 0) > MEMORY_ENTRIES_MAX ? [mistake(at('capacity'), `must be at most ${MEMORY_ENTRIES_MAX} with memory: bloom takes a hundredth of the room`)] : []),
    ...(store === 'bloom' && filterBytes(sizeOf(drop)) > FILTER_BYTES_MAX ? [mistake(at('capacity'), `and errorRate take ${Math.ceil(filterBytes(sizeOf(drop)) / 1024 ** 2)} MiB for each of two filters; at most ${FILTER_BYTES_MAX / 1024 ** 2} MiB`)] : [])
  ]
}

function sizeOf ({ capacity, errorRate }: DropFile): { readonly capacity: number, readonly errorRate: number } {
  return { capacity: capacity ?? CAPACITY.bloom, errorRate: errorRate ?? ERROR_RATE }
}

/** What comes in is sound. null: mode enforce. */
export function dropOf ({ mode, drop }: IdempotencyFile): DropPolicy | null {
  if (mode !== 'drop' || drop === undefined) return null
  const { window, mark, onDuplicate, status } = drop
  return { store: storeOf(drop), windowMs: parseDuration(window) ?? 0, mark, onDuplicate, status }
}

function storeOf (drop: DropFile): DropStore {
  switch (drop.store) {
    case 'memory': return { kind: 'memory', capacity: drop.capacity ?? CAPACITY.memory }
    case 'bloom': return { kind: 'bloom', ...sizeOf(drop) }
    case 'redis':
    case 'database': return { kind: drop.store }
  }
}

/** For `onceway check`: right, and worth a word. */
export function dropWarnings (routes: ReadonlyArray<{ readonly name: string, readonly idempotency: { readonly drop: DropPolicy | null } | null }>): string[] {
  return routes.flatMap(({ name, idempotency }) => {
    const drop = idempotency?.drop ?? null
    if (drop === null) return []
    return [
      ...(drop.mark === 'before' ? [`Route ${name} marks events before they are forwarded: one whose forwarding fails is lost.`] : []),
      ...(drop.store.kind === 'bloom' ? [`Route ${name} keeps its marks in a Bloom filter: of new events up to ${drop.store.errorRate * 100} % are taken for duplicates, and lost.`] : [])
    ]
  })
}
