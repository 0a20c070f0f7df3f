/**
 * Another scheme (schemes.ts) begins to claim: what is ordered, and what it comes to. What stands under the one before keeps its
 * ids and is looked for under them until none of it is left. Pure; each database has a driver of its own.
 */

export interface SwitchOrder {
  /** Of the scheme that is to claim. */
  readonly name: string
  readonly who: string
  readonly why: string
  /**
   * The secret of the one that claims now is lost: nobody can make its ids any more. Where the one that is to claim
   * does already: that of the one before it.
   */
  readonly isLost: boolean
  /** Counts, and changes nothing. */
  readonly dryRun: boolean
  /** Instances that are known to be gone, whatever they have registered. */
  readonly without?: readonly string[]
}

export interface SchemeRows { readonly records: number, readonly messages: number, readonly marks: number }

export type SwitchResult =
  /**
   * `number`: the scheme's that claims from now on, or (dryRun) would. `from` null: nobody had chosen one yet, and this is the
   * first. `rows`: so much lives under the one before.
   */
  | { readonly kind: 'switched', readonly number: number, readonly from: string | null, readonly to: string, readonly rows: SchemeRows }
  /** It claims already; and so much lives under the one before it, whose secret is lost by now. */
  | { readonly kind: 'lost', readonly number: number, readonly earlier: string, readonly rows: SchemeRows }
  /** It claims already. */
  | { readonly kind: 'same', readonly number: number }
  /**
   * Another switch has not ended: so much is left of the scheme before the one that claims, past or not, since only who sweeps knows
   * what time to believe. One request has two ids at most. `untilMs`: not before that, Unix milliseconds; null: nobody can say.
   */
  | { readonly kind: 'earlier-left', readonly earlier: string, readonly rows: SchemeRows, readonly untilMs: number | null }
  /** Living gateways that cannot make such ids, and how long they have been silent. */
  | { readonly kind: 'unable', readonly gateways: ReadonlyArray<{ readonly instance: string, readonly silentMs: number }> }

export function isNone ({ records, messages, marks }: SchemeRows): boolean {
  return records === 0 && messages === 0 && marks === 0
}

/** For an operator. The newest scheme first; times are Unix milliseconds, by the store's clock. */
export interface SchemeReport {
  readonly schemes: ReadonlyArray<{
    readonly number: number
    /** null: not chosen yet. */
    readonly name: string | null
    readonly sinceMs: number
    /** null: nobody has switched to it. */
    readonly who: string | null
    readonly why: string | null
    readonly isLost: boolean
    readonly endedMs: number | null
    readonly lookFromMs: number | null
  }>
  /** Those that live. `schemes` null: it says nothing of them. */
  readonly gateways: ReadonlyArray<{ readonly instance: string, readonly seenMs: number, readonly schemes: readonly string[] | null }>
}
