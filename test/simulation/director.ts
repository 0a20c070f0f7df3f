/**
 * Which fault comes when. It counts the calls and steps of every gateway, and carries out what the schedule says at each. A fault comes
 * once. It does not know what a fault does.
 */
import type { Action, Fault, MessageFault, Moment } from './schedule.ts'

export interface Met { readonly fault: MessageFault, readonly lateMs: number }

export class Director {
  readonly #act: (action: Action) => void
  readonly #waiting: Fault[]
  readonly #calls = new Map<string, number>()
  readonly #steps: number[] = []

  constructor (faults: readonly Fault[], act: (action: Action) => void) {
    this.#waiting = faults.filter(({ trigger }) => trigger.kind !== 'time')
    this.#act = act
  }

  /** A call of this gateway is at this moment. What happens to the call itself is the answer; all else has happened. */
  meets (gateway: number, operation: string, moment: Moment): Met | null {
    if (this.#waiting.length === 0) return null
    if (moment !== 'applied') this.step(gateway)
    const name = `${gateway} ${operation} ${moment}`
    const nth = (this.#calls.get(name) ?? 0) + 1
    this.#calls.set(name, nth)
    let met: Met | null = null
    this.#release(
      ({ trigger }) =>
        trigger.kind === 'call' &&
        trigger.gateway === gateway &&
        trigger.operation === operation &&
        trigger.nth === nth &&
        trigger.moment === moment,
      (action) => {
        if (action.kind === 'message') met = action
        this.#act(action)
      }
    )
    return met
  }

  /** No fault comes any more. */
  end (): void {
    this.#waiting.length = 0
  }

  step (gateway: number): void {
    const nth = (this.#steps[gateway] ?? 0) + 1
    this.#steps[gateway] = nth
    this.#release(({ trigger }) => trigger.kind === 'step' && trigger.gateway === gateway && trigger.nth === nth, this.#act)
  }

  #release (comes: (fault: Fault) => boolean, act: (action: Action) => void): void {
    for (let at = 0; at < this.#waiting.length; at++) {
      const fault = this.#waiting[at]
      if (fault === undefined || !comes(fault)) continue
      this.#waiting.splice(at--, 1)
      act(fault.action)
    }
  }
}
