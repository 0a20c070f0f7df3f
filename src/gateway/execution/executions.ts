/**
 * The executions of this process, at most one for each record. Each stands in a slot that is emptied when it leaves: a Map
 * is copied over and over while entries come and go, every old copy holds what was in it and, in V8, the next copy too, so
 * that one that has grown old keeps all of them and everything they lead to until the next full collection. Measured
 * (Node 24.21): a third of all that requests allocate was moved twice and collected late for that.
 */
import type { Execution } from './execution.ts'

interface Slot { execution: Execution | null }

export class Executions {
  readonly #slots = new Map<string, Slot>()

  get size (): number { return this.#slots.size }

  get (name: string): Execution | undefined {
    return this.#slots.get(name)?.execution ?? undefined
  }

  /** Nobody else's execution of the record stands here. */
  enter (execution: Execution): void {
    this.#slots.set(execution.keyed.name, { execution })
  }

  /** Once it has left, or another one has come in its place, nothing happens. */
  leave (execution: Execution): void {
    const { name } = execution.keyed
    const slot = this.#slots.get(name)
    if (slot?.execution !== execution) return
    slot.execution = null
    this.#slots.delete(name)
  }

  /** Of all that run: a claim under one of these is not lapsed by its own process. */
  owners (): Buffer[] {
    return this.all().map((execution) => execution.owner)
  }

  all (): Execution[] {
    return Array.from(this.#slots.values()).flatMap(({ execution }) => execution ?? [])
  }
}
