/** Combines the readiness of several workers. Pure. */
import { weakestOf } from '../../core/protocol/durability.ts'
import type { Readiness } from '../../http/admin.ts'

/**
 * `answers`: null for a worker that does not exist, does not listen yet, or did not answer. `wasComplete`: all workers
 * have listened at the same time.
 */
export function readinessOfAll (answers: ReadonlyArray<Readiness | null>, wasComplete: boolean): Readiness {
  const known = answers.filter((answer) => answer !== null)
  const ready = known.filter(({ phase }) => phase === 'ready')
  const degraded = new Set(known.flatMap((answer) => answer.degraded))
  // Some workers serve. If a balancer turned away, it would lose more than what is missing.
  if (ready.length < answers.length) degraded.add('workers')
  const phase = wasComplete && ready.length > 0 ? 'ready' : 'starting'
  const waiting = known.find((answer) => answer.waiting !== undefined)?.waiting
  return {
    phase,
    ...phase === 'starting' && waiting !== undefined ? { waiting } : {},
    degraded: Array.from(degraded).sort(),
    blocked: known.find(({ blocked }) => blocked !== null)?.blocked ?? null,
    durability: weakestOf(known.map(({ durability }) => durability).filter((durability) => durability !== null))
  }
}
