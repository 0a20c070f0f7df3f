/**
 * Rate limit for warnings about callers and upstreams, which would otherwise be logged with every request.
 * The first of a kind is logged, then at most one a minute, with the count of suppressed ones (`unsaid`).
 * Memory is bounded: the least recently used kind is forgotten. A caller that invents new kinds cannot fill the log.
 */
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../ports/clock.ts'
import type { LogEvent } from '../../ports/log-events.ts'
import type { Log } from '../../ports/telemetry.ts'

const EVERY_MS = 60_000
/** Names of fields come from clients. This bounds the memory for them. */
const KINDS_MAX = 1_000
/** The most lines of one notice about one route in {@link EVERY_MS}. The clients of a route misspell fewer names. */
const LINES_MAX = 20

interface LoggedWarning { readonly atMs: number, unsaid: number }
interface LineWindow { readonly sinceMs: number, lines: number }

export class Notices {
  readonly #logged = bounded<LoggedWarning>()
  readonly #windows = bounded<LineWindow>()
  readonly #deps: () => { readonly clock: Clock, readonly log: Log }

  /** `deps`: read for every warning, because a reload changes it. */
  constructor (deps: () => { readonly clock: Clock, readonly log: Log }) {
    this.#deps = deps
  }

  /** Two warnings are of one kind if their event, `route` and `which` are the same. */
  warn (event: LogEvent, route: string, which: string, fields: object, message: string): void {
    const { clock, log } = this.#deps()
    const about = `${event}\0${route}`
    const name = `${about}\0${which}`
    const now = clock.monotonicMs()
    const logged = this.#logged.get(name)
    if (logged !== undefined && now - logged.atMs < EVERY_MS) {
      logged.unsaid++
      return
    }
    if (!this.#hasLine(about, now)) return
    this.#logged.set(name, { atMs: now, unsaid: 0 })
    log.warn({ event, route, ...fields, ...(logged !== undefined && logged.unsaid > 0 && { unsaid: logged.unsaid }) }, message)
  }

  #hasLine (about: string, now: number): boolean {
    const known = this.#windows.get(about)
    const window = known !== undefined && now - known.sinceMs < EVERY_MS ? known : { sinceMs: now, lines: 0 }
    if (window !== known) this.#windows.set(about, window)
    return ++window.lines <= LINES_MAX
  }
}

function bounded<Value extends object> (): LRUCache<string, Value> {
  return new LRUCache({ maxSize: KINDS_MAX, sizeCalculation: () => 1 })
}
