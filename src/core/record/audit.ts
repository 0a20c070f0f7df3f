/** A change by hand of one record, as it is stored. Audit rows outlive the record. */
export interface AuditRow {
  readonly atMs: number
  readonly action: 'resolve' | 'release' | 'delete'
  readonly id: Buffer
  readonly owner: Buffer
  readonly attempt: number
  readonly route: string
  /** The record's state after the change. */
  readonly state: string
  readonly who: string
  readonly why: string
}

export interface AuditFilter { readonly id?: Buffer, readonly limit: number }
