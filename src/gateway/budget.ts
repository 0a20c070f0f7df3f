/** A bound on bytes held at once, and who holds them. */
export class Budget {
  #max: number
  #held = 0

  constructor (max: number) {
    this.#max = max
  }

  get held (): number { return this.#held }
  get full (): boolean { return this.#held >= this.#max }

  /** What is held stays held; a smaller bound stops what comes next. */
  resize (max: number): void {
    this.#max = max
  }

  /** false: over the bound (or over `share` of it), nothing was reserved. */
  reserve (bytes: number, share = 1): boolean {
    if (this.#held + bytes > this.#max * share) return false
    this.#held += bytes
    return true
  }

  /** As many of them as the bound (or `share` of it) has left; from 0 to all. */
  reserveUpTo (bytes: number, share = 1): number {
    const reserved = Math.max(0, Math.min(bytes, Math.floor(this.#max * share) - this.#held))
    this.#held += reserved
    return reserved
  }

  /** For bytes that are held already and cannot be refused any more; the bound then stops what comes next. */
  take (bytes: number): void {
    this.#held += bytes
  }

  release (bytes: number): void {
    this.#held -= bytes
  }
}

/** One body in a budget and its caller's place, held by one or more; the last to let go gives both back. */
export class Holding {
  readonly #budget: Budget
  readonly #bytes: number
  readonly #leave: () => void
  #holders = 1

  /** `bytes` are reserved already, and the place is taken; `leave` gives it back. */
  constructor (budget: Budget, bytes: number, leave: () => void) {
    this.#budget = budget
    this.#bytes = bytes
    this.#leave = leave
  }

  share (): void {
    this.#holders++
  }

  release (): void {
    if (--this.#holders !== 0) return
    this.#budget.release(this.#bytes)
    this.#leave()
  }
}
