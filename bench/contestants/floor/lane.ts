/** A lane of the floors: entries gather while one batch is under way, and go out together when it has come back. */

export interface Entry {
  /** In hexadecimal. A batch is sorted by it, so that rows and index pages are touched in one order. */
  readonly name: string
  /** null: the commit has returned. */
  readonly done: (error: Error | null) => void
}

export class Lane<Of extends Entry> {
  readonly #send: (batch: readonly Of[], done: (error: Error | null) => void) => void
  #waiting: Of[] = []
  #underWay = false
  #scheduled = false

  constructor (send: (batch: readonly Of[], done: (error: Error | null) => void) => void) {
    this.#send = send
  }

  /** The first entry of a turn of the event loop waits for the others of that turn. */
  push (entry: Of): void {
    this.#waiting.push(entry)
    if (this.#underWay || this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#next()
    })
  }

  #next (): void {
    const batch = this.#waiting.sort(byName)
    this.#waiting = []
    this.#underWay = true
    this.#send(batch, (error) => {
      this.#underWay = false
      for (const entry of batch) entry.done(error)
      if (this.#waiting.length > 0 && !this.#scheduled) this.#next()
    })
  }
}

function byName (one: Entry, other: Entry): number {
  return one.name < other.name ? -1 : 1
}
