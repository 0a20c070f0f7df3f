/**
 * The executions of this process, at most one for each record. Each is in a slot that is emptied when the execution ends.
 * V8 copies a Map again and again while entries come and go. Every old copy holds its entries and the next copy.
 * An old copy in the old generation keeps all of them alive until the next full collection.
 * Measured (Node 24.21): for that, a third of all that requests allocate was moved twice and collected late.
 */
import type { Execution } from './execution.ts'
import type { GuardedRequest } from './guarded-request.ts'

interface Slot { execution: GuardedRequest | null }

export class Executions {
  readonly #slots = new Map<string, Slot>()

  get size (): number { return this.#slots.size }

  get (name: string): GuardedRequest | undefined {
    return this.#slots.get(name)?.execution ?? undefined
  }

  /** No other execution of the record may be here. */
  add (execution: GuardedRequest): void {
    this.#slots.set(execution.keyed.name, { execution })
  }

  /** Does nothing if the execution is removed already, or if a later one of its record has its slot. */
  remove (execution: Pick<Execution, 'keyed'>): void {
    const { name } = execution.keyed
    const slot = this.#slots.get(name)
    if (slot?.execution !== execution) return
    slot.execution = null
    this.#slots.delete(name)
  }

  /** The owners of all running executions. This process lapses no claim of theirs. */
  owners (): Buffer[] {
    return this.all().map((execution) => execution.owner)
  }

  all (): GuardedRequest[] {
    return Array.from(this.#slots.values()).flatMap(({ execution }) => execution ?? [])
  }
}
