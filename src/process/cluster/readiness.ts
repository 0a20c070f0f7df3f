/** Several workers' readiness as one gateway's. Pure. */
import { weakestOf } from '../../core/protocol/durability.ts'
import type { Readiness } from '../../http/admin.ts'

/** `answers`: null for a worker that is not there, does not listen yet, or did not answer. `wasComplete`: all have listened at once. */
export function readinessOfAll (answers: ReadonlyArray<Readiness | null>, wasComplete: boolean): Readiness {
  const known = answers.filter((answer) => answer !== null)
  const ready = known.filter(({ phase }) => phase === 'ready')
  const degraded = new Set(known.flatMap((answer) => answer.degraded))
  // Some of them serve: a balancer that turned away from the whole would lose more than is missing.
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
