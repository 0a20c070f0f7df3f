/** What signals wish of a gateway that serves: to stop, to stop at once, to read its file again. */
import type { Terminal } from './command.ts'

/**
 * `npm start` forwards the Ctrl-C that the terminal has already sent to the whole group: the same signal twice within
 * milliseconds is one wish. Nobody presses again on purpose within this time.
 */
const SAME_SIGNAL_MS = 500

/** SIGTERM and SIGINT: the first one is a wish to stop, a second one ends the process where it stands. SIGHUP: see {@link Hangups}. */
export class Signals {
  /** Which one came first. */
  readonly first: Promise<NodeJS.Signals>
  readonly #hangups = new Hangups()
  #onSecond: () => void = () => {}

  constructor ({ err }: Terminal) {
    const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>()
    this.first = promise
    let firstAtMs: number | null = null
    const onSignal = (signal: NodeJS.Signals) => {
      if (firstAtMs !== null && performance.now() - firstAtMs < SAME_SIGNAL_MS) return
      if (firstAtMs !== null) {
        err(`onceway: ${signal} again: ending at once; what is under way becomes indeterminate.`)
        this.#onSecond()
        process.exit(1)
      }
      firstAtMs = performance.now()
      resolve(signal)
    }
    process.on('SIGTERM', onSignal)
    process.on('SIGINT', onSignal)
  }

  onHangup (reload: () => void): void {
    this.#hangups.deliver(reload)
  }

  /** Before the process ends at a second signal. */
  onSecond (end: () => void): void {
    this.#onSecond = end
  }
}

/** SIGHUP is a wish to reload, whenever it comes: left alone, it would end the process. One that comes too early is kept. */
class Hangups {
  #early = false
  #reload: (() => void) | null = null

  constructor () {
    process.on('SIGHUP', () => {
      if (this.#reload === null) this.#early = true
      else this.#reload()
    })
  }

  deliver (reload: () => void): void {
    this.#reload = reload
    if (this.#early) reload()
  }
}
