/** `mode: drop`: its checks, its policy and its warnings. The schema is in schema-drop.ts. */
import { FILTER_BYTES_MAX, filterBytes } from '../../core/drop/bloom.ts'
import type { DropPolicy, DropStore } from '../../core/policy/policy.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import type { DropFile } from './schema-drop.ts'
import type { IdempotencyFile } from './schema.ts'
import { parseDuration } from '../read/units.ts'

/** Default capacities. They take some 30 MB in memory, and 4 MB in the two halves of a filter. */
const CAPACITY = { memory: 100_000, bloom: 1_000_000 } as const
/** For more entries, a list in memory takes too much. */
const MEMORY_ENTRIES_MAX = 10_000_000
const ERROR_RATE = 0.001

/** Settings without effect in mode drop. They are mistakes, because an operator would rely on them. */
function meaningless ({ unknown, fingerprint, onMismatch }: IdempotencyFile): Array<[name: string, message: string]> {
  const why = 'has no effect with mode drop'
  return [
    ...(unknown === 'probe'
      ? [['unknown', 'cannot be probe with mode drop: drop.mark decides about events of unknown outcome'] as [string, string]]
      : []),
    ...(fingerprint === undefined ? [] : [['fingerprint', `${why}: an event is its key, and nothing is compared`] as [string, string]]),
    ...(onMismatch.action === 'replay' ? [['onMismatch', `${why}: nothing is compared, and nothing is replayed`] as [string, string]] : [])
  ]
}

/** `redis`: Redis is used. It and Postgres are both configured. */
export function checkDrop (policy: IdempotencyFile, path: Path, redis: boolean): Mistake[] {
  const { mode, drop } = policy
  const at = (name: string) => [...path, 'drop', name]
  if (mode !== 'drop') return drop === undefined ? [] : [mistake([...path, 'drop'], 'is not used: mode is not drop', 'key')]
  if (drop === undefined) return []
  const { store, capacity, errorRate } = drop
  return [
    ...meaningless(policy).map(([name, message]) => mistake([...path, name], message, 'key')),
    ...(store === 'redis' && !redis
      ? [mistake(
          at('store'),
          'is redis, but Redis is not used: set stores.postgres and stores.redis (Redis is used with Postgres only)'
        )]
      : []),
    ...(capacity !== undefined && store !== 'memory' && store !== 'bloom'
      ? [mistake(at('capacity'), `is not used: store ${store} keeps every event of its window`, 'key')]
      : []),
    ...(errorRate !== undefined && store !== 'bloom'
      ? [mistake(at('errorRate'), 'is not used: only store bloom has an error rate', 'key')]
      : []),
    ...(store === 'memory' && (capacity ?? 0) > MEMORY_ENTRIES_MAX
      ? [mistake(at('capacity'), `must be at most ${MEMORY_ENTRIES_MAX} with memory: bloom takes a hundredth of the memory`)]
      : []),
    ...(store === 'bloom' && filterBytes(sizeOf(drop)) > FILTER_BYTES_MAX
      ? [mistake(at('capacity'), `and errorRate take ${Math.ceil(filterBytes(sizeOf(drop)) / 1024 ** 2)} MiB for each of two filters; at most ${FILTER_BYTES_MAX / 1024 ** 2} MiB`)]
      : [])
  ]
}

function sizeOf ({ capacity, errorRate }: DropFile): { readonly capacity: number, readonly errorRate: number } {
  return { capacity: capacity ?? CAPACITY.bloom, errorRate: errorRate ?? ERROR_RATE }
}

/** The policy has passed checkDrop. null: another mode. */
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

/** For `onceway check`. */
export function dropWarnings (
  routes: ReadonlyArray<{ readonly name: string, readonly idempotency: { readonly drop: DropPolicy | null } | null }>
): string[] {
  return routes.flatMap(({ name, idempotency }) => {
    const drop = idempotency?.drop ?? null
    if (drop === null) return []
    return [
      ...(drop.mark === 'before' ? [`Route ${name} marks events before they are forwarded: an event whose forwarding fails is lost.`] : []),
      ...(drop.store.kind === 'bloom'
        ? [`Route ${name} keeps its marks in a Bloom filter: up to ${drop.store.errorRate * 100} % of new events are taken for duplicates, and lost.`]
        : [])
    ]
  })
}
