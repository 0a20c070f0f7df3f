/** What one request holds of the gateway: its body's bytes, its caller's place. By one or more; the last to let go gives both back. */
import type { Holder } from '../../core/limits/limit.ts'
import type { BodyRoom } from './body-room.ts'

export class BodyReservation {
  readonly #room: BodyRoom
  readonly #leave: () => void
  #holders = 1

  /** The bytes are taken already, and so is the place; `leave` gives it back. */
  constructor (room: BodyRoom, leave: () => void) {
    this.#room = room
    this.#leave = leave
  }

  /** Whose share all of it counts in, and what is held for it later. */
  get holder (): Holder { return this.#room.holder }

  share (): void {
    this.#holders++
  }

  release (): void {
    if (--this.#holders !== 0) return
    this.#room.release()
    this.#leave()
  }
}
