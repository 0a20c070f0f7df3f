/** What states and reasons of records mean, for people. */
import type { VNode } from 'preact'
import type { RecordSummaryJson } from '../../../operator/records/schemas.ts'
import { span } from '../shell/elements.ts'
import { visible } from '../shell/text.ts'

export const STATE_WORDS: Readonly<Record<RecordSummaryJson['state'], string>> = {
  claimed: 'In flight',
  completed: 'Answer stored',
  consumed: 'Executed, answer not kept',
  released: 'Not executed, key free',
  indeterminate: 'Outcome unknown',
  undecodable: 'Not readable by this release'
}

export function stateOf (state: RecordSummaryJson['state']): VNode {
  return span({ class: `state state-${state}` }, STATE_WORDS[state])
}

const STAGE_WORDS: Readonly<Record<string, string>> = {
  during: 'It was sent, and the answer did not come or did not end.',
  hop: 'An answer came that a proxy may have made. It does not say whether the application got the request.',
  lease: 'The gateway that had it died, or lost its database, while it was in flight. Whether it was sent is not known.',
  drain: 'The gateway was stopped while it was in flight.',
  settle: 'The store cannot keep the answer that came.',
  restore: 'The database came from a backup that is older than the answer.'
}

export function stageWords ({ reason }: Pick<RecordSummaryJson, 'reason'>): string {
  return reason === null ? '' : STAGE_WORDS[reason.stage] ?? ''
}

export function reasonCode ({ reason }: Pick<RecordSummaryJson, 'reason'>): string {
  return reason === null ? '' : visible(`${reason.stage}/${reason.code}`)
}
