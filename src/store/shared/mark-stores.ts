/** Where marks of mode drop can be kept: what each driver gives (store/route-marks.ts chooses). */
import type { MarkStore } from '../../ports/marks.ts'

export interface FilterPlan { readonly route: string, readonly capacity: number, readonly errorRate: number, readonly windowMs: number }

/** What a database has beside its records. */
export interface DatabaseMarks extends MarkStore { readonly sweep: (limit: number) => Promise<number> }

/** What Redis has beside its locks. */
export interface RedisMarking {
  readonly marks: MarkStore
  readonly filter: (plan: FilterPlan) => MarkStore
}
