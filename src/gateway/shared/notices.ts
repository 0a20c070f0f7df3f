/**
 * Warnings about what callers and upstreams do, which would come with every request: the first of its kind is said, then at most
 * one a minute, with how many there were in between. Bounded: of many kinds the one said longest ago is forgotten, and whoever
 * makes ever new ones fills no log.
 */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../ports/clock.ts'
import type { LogEvent } from '../../ports/log-events.ts'
import type { Log } from '../../ports/telemetry.ts'

const EVERY_MS = 60_000
/** Names of fields are the clients' text: as many as a log has use for, and no more memory than that. */
const KINDS_MAX = 1_000
/** Lines of one notice about one route in {@link EVERY_MS}: more names than the clients of a route misspell. */
const LINES_MAX = 20

interface Said { readonly atMs: number, unsaid: number }
interface Minute { readonly sinceMs: number, lines: number }

export class Notices {
  readonly #said = bounded<Said>()
  readonly #minutes = bounded<Minute>()
  readonly #where: () => { readonly clock: Clock, readonly log: Log }

  /** `where`: asked every time, since a reload changes it. */
  constructor (where: () => { readonly clock: Clock, readonly log: Log }) {
    this.#where = where
  }

  /** `which`: two warnings are the same if their event, route and `which` are the same. */
  warn (event: LogEvent, route: string, which: string, fields: object, message: string): void {
    const { clock, log } = this.#where()
    const about = `${event}\0${route}`
    const name = `${about}\0${which}`
    const now = clock.monotonicMs()
    const said = this.#said.get(name)
    if (said !== undefined && now - said.atMs < EVERY_MS) {
      said.unsaid++
      return
    }
    if (!this.#hasLine(about, now)) return
    this.#said.set(name, { atMs: now, unsaid: 0 })
    log.warn({ event, route, ...fields, ...(said !== undefined && said.unsaid > 0 && { unsaid: said.unsaid }) }, message)
  }

  #hasLine (about: string, now: number): boolean {
    const known = this.#minutes.get(about)
    const minute = known !== undefined && now - known.sinceMs < EVERY_MS ? known : { sinceMs: now, lines: 0 }
    if (minute !== known) this.#minutes.set(about, minute)
    return ++minute.lines <= LINES_MAX
  }
}

function bounded<Value extends object> (): LRUCache<string, Value> {
  return new LRUCache({ maxSize: KINDS_MAX, sizeCalculation: () => 1 })
}
