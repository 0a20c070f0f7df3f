/** How far a run has come, and how long the rest may take. What is done so far says how good the plan was. */

export interface Step {
  /** What runs now: the phase, and what of it. */
  readonly phase: string
  readonly what: string
  readonly seconds: number
}

export type Show = (phase: string, what: string, left: string) => void

export class Progress {
  readonly #plannedSeconds: number
  readonly #show: Show
  readonly #nowMs: () => number
  readonly #beganAtMs: number
  #doneSeconds = 0
  #underWaySeconds = 0

  constructor (plannedSeconds: number, show: Show, nowMs = () => performance.now()) {
    this.#plannedSeconds = plannedSeconds
    this.#show = show
    this.#nowMs = nowMs
    this.#beganAtMs = nowMs()
  }

  /** The step before it is done. */
  begin ({ phase, what, seconds }: Step): void {
    this.#doneSeconds += this.#underWaySeconds
    this.#underWaySeconds = seconds
    this.#show(phase, what, `${inWords(this.#leftSeconds())} left`)
  }

  #leftSeconds (): number {
    const planned = Math.max(0, this.#plannedSeconds - this.#doneSeconds)
    const pace = (TRUSTED_SECONDS + (this.#nowMs() - this.#beganAtMs) / 1_000) / (TRUSTED_SECONDS + this.#doneSeconds)
    return planned * pace
  }
}

/** The plan counts as this much that was done in time: the first steps alone say little. */
const TRUSTED_SECONDS = 60

/** In whole minutes, and at the end in tens of seconds: more would be made up. */
export function inWords (seconds: number): string {
  return seconds < 90 ? `${Math.max(10, Math.ceil(seconds / 10) * 10)} s` : `${Math.round(seconds / 60)} min`
}

/** A line for each phase. On a terminal, the last line says each step. */
export function shownOn (stream: { readonly isTTY?: boolean, readonly write: (text: string) => unknown }): Show {
  let last = ''
  return (phase, what, left) => {
    if (stream.isTTY === true) stream.write(`\r\u001b[K${phase}: ${what}, ${left}`)
    else if (phase !== last) stream.write(`${phase}, ${left}\n`)
    last = phase
  }
}
