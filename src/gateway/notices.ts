/**
 * Warnings about what callers and upstreams do, which would come with every request: the first of its kind is said, then at most
 * one a minute, with how many there were in between. Bounded: of many kinds the one said longest ago is forgotten.
 */
import { LRUCache } from 'lru-cache'
import type { Clock, Log } from '../ports.ts'

const EVERY_MS = 60_000
/** Names of fields are the clients' text: as many as a log has use for, and no more memory than that. */
const KINDS_MAX = 1_000

interface Said { readonly atMs: number, unsaid: number }

export class Notices {
  readonly #said = new LRUCache<string, Said>({ maxSize: KINDS_MAX, sizeCalculation: () => 1 })
  readonly #where: () => { readonly clock: Clock, readonly log: Log }

  /** `where`: asked every time, since a reload changes it. */
  constructor (where: () => { readonly clock: Clock, readonly log: Log }) {
    this.#where = where
  }

  /** `kind`: what makes two warnings the same. */
  warn (kind: readonly string[], fields: object, message: string): void {
    const { clock, log } = this.#where()
    const name = kind.join('\0')
    const now = clock.monotonicMs()
    const said = this.#said.get(name)
    if (said !== undefined && now - said.atMs < EVERY_MS) {
      said.unsaid++
      return
    }
    this.#said.set(name, { atMs: now, unsaid: 0 })
    log.warn({ ...fields, ...(said !== undefined && said.unsaid > 0 && { unsaid: said.unsaid }) }, message)
  }
}
