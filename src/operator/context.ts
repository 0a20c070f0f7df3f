/** What operations stand on, beyond the stores: the functions of the process that answers. */
import type { ExplainContext } from './explain/explain.ts'
import type { ProcessView } from './overview/process-view.ts'
import type { OperatorContext } from './shared/operators.ts'

export interface OperationContext extends OperatorContext {
  /** What an explanation reads besides the stores. */
  readonly explaining: Omit<ExplainContext, 'records' | 'inbox' | 'secrets'>
  /** null: a command asks, and no gateway. */
  readonly gateway: ProcessView | null
}
