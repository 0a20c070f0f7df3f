/** A change by hand, as it is stored. Audit rows outlive what they are about, and are never changed. */

export const RECORD_ACTIONS = ['resolve', 'release', 'delete', 'probe'] as const
export const MESSAGE_ACTIONS = ['retry', 'discard', 'replay', 'pause', 'resume'] as const
export type RecordAction = typeof RECORD_ACTIONS[number]
export type MessageAction = typeof MESSAGE_ACTIONS[number]

/** How it was before, and after. Null members are left out. */
export type AuditedState = Readonly<Record<string, string | number>>

export interface AuditRow {
  readonly atMs: number
  /** Its number among the changes of records, or of messages. */
  readonly number: string
  readonly about: 'record' | 'message' | 'route'
  readonly action: RecordAction | MessageAction
  /** Of the record or message. null: of a route. */
  readonly id: Buffer | null
  readonly owner: Buffer | null
  readonly attempt: number | null
  readonly route: string
  readonly requestId: string | null
  /** The state after the change. If a release of before wrote it: of a message, the state before. */
  readonly state: string
  readonly who: string
  /** How the operator was recognised. null: a release of before wrote it. */
  readonly via: string | null
  readonly why: string
  /** null: a release of before wrote it. */
  readonly before: AuditedState | null
  readonly after: AuditedState | null
}
