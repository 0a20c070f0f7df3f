/** The time of a simulated store: the present, or, while it does again what was done, the past. */
export interface Write<Store> { readonly atMs: number, readonly apply: (store: Store) => Promise<unknown> }

export class StoreTime {
  readonly #nowMs: () => number
  #thenMs: number | null = null

  constructor (nowMs: () => number) {
    this.#nowMs = nowMs
  }

  readonly nowMs = (): number => this.#thenMs ?? this.#nowMs()

  /** As if it were then, for as long as `work` does not wait. */
  at<Result> (thenMs: number, work: () => Result): Result {
    this.#thenMs = thenMs
    try {
      return work()
    } finally {
      this.#thenMs = null
    }
  }

  /** The memory stores apply a write before they return its promise. */
  again<Store> (writes: ReadonlyArray<Write<Store>>, store: Store): void {
    for (const { atMs, apply } of writes) {
      this.at(atMs, () => { apply(store).catch(() => {}) })
    }
  }
}
