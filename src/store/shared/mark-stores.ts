/** Where marks of mode drop can be kept, per driver. store/route-marks.ts chooses. */
import type { MarkStore } from '../../ports/marks.ts'

export interface FilterPlan { readonly route: string, readonly capacity: number, readonly errorRate: number, readonly windowMs: number }

/** The marks of a database, beside its records. */
export interface DatabaseMarks extends MarkStore { readonly sweep: (limit: number) => Promise<number> }

/** The marks of Redis, beside its locks. */
export interface RedisMarking {
  readonly marks: MarkStore
  readonly filter: (plan: FilterPlan) => MarkStore
}
