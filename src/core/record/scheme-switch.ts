/**
 * The switch to another scheme (schemes.ts): the order and its result. Rows of the earlier scheme keep their ids, and are found under them
 * until none is left. Pure. Each database has a driver of its own.
 */

export interface SwitchOrder {
  /** The name of the new scheme. */
  readonly name: string
  readonly who: string
  readonly why: string
  /**
   * The secret of the scheme that claims now is lost, so its ids cannot be made any more. If the new scheme claims already, this is about
   * the secret of the one before it.
   */
  readonly isLost: boolean
  /** Count, and change nothing. */
  readonly dryRun: boolean
  /** Instances that are known to be gone, even if they are registered. */
  readonly without?: readonly string[]
}

export interface SchemeRows { readonly records: number, readonly messages: number, readonly marks: number }

export type SwitchResult =
  /**
   * `number`: of the scheme that claims from now on, or (dryRun) would. `from` null: there was no scheme, and this is the first. `rows`:
   * living rows of the earlier scheme.
   */
  | { readonly kind: 'switched', readonly number: number, readonly from: string | null, readonly to: string, readonly rows: SchemeRows }
  /** The scheme claims already. `rows`: living rows of the one before it, whose secret is now lost. */
  | { readonly kind: 'lost', readonly number: number, readonly earlier: string, readonly rows: SchemeRows }
  /** The scheme claims already. */
  | { readonly kind: 'same', readonly number: number }
  /**
   * An earlier switch has not ended, and a request may have two ids at most. `rows`: what is left of the earlier scheme, past or not,
   * because only the sweeper knows which time to believe. `untilMs`: not before that, Unix milliseconds. null: not known.
   */
  | { readonly kind: 'earlier-left', readonly earlier: string, readonly rows: SchemeRows, readonly untilMs: number | null }
  /** Living gateways that cannot make such ids, and how long they have been silent. */
  | { readonly kind: 'unable', readonly gateways: ReadonlyArray<{ readonly instance: string, readonly silentMs: number }> }

export function isNone ({ records, messages, marks }: SchemeRows): boolean {
  return records === 0 && messages === 0 && marks === 0
}

/** For an operator. The newest scheme comes first. Times are Unix milliseconds, by the store's clock. */
export interface SchemeReport {
  readonly schemes: ReadonlyArray<{
    readonly number: number
    /** null: not chosen yet. */
    readonly name: string | null
    readonly sinceMs: number
    /** null: no switch led to it. */
    readonly who: string | null
    readonly why: string | null
    readonly isLost: boolean
    readonly endedMs: number | null
    readonly lookFromMs: number | null
  }>
  /** Living gateways. `schemes` null: the gateway does not report them. */
  readonly gateways: ReadonlyArray<{ readonly instance: string, readonly seenMs: number, readonly schemes: readonly string[] | null }>
}
