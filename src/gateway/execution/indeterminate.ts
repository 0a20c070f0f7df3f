/** Counts and logs unknown outcomes. */
import type { UnknownReason } from '../../core/record/record.ts'
import type { KeyedRequest } from '../fingerprint/keyed-request.ts'
import type { Deps } from '../shared/deps.ts'

/** What of an execution its log line and its counters need. */
export interface UnknownOutcome {
  readonly keyed: Pick<KeyedRequest, 'name' | 'route' | 'requestId'>
  readonly attempt: number
  readonly question: Buffer | null
}

export function noteIndeterminate (
  context: { readonly deps: Deps },
  execution: UnknownOutcome,
  reason: UnknownReason,
  status: number | null
): void {
  const { route, name, requestId } = execution.keyed
  context.deps.meter.indeterminate(route.name, reason.stage)
  const unaskable = route.idempotency.probe !== null && execution.question === null
  if (unaskable) context.deps.meter.probed(route.name, 'unaskable')
  context.deps.log.error(
    {
      event: 'outcome-unknown',
      record: name,
      route: route.name,
      requestId,
      attempt: execution.attempt,
      stage: reason.stage,
      code: reason.code,
      status,
      unknown: route.idempotency.unknown,
      ...unaskable && { probe: 'the request lacks what probe asks for, or has it in a form that can be read in two ways' }
    },
    'outcome unknown: the record is indeterminate'
  )
}
