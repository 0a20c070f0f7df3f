/** Signals of a running gateway: stop, stop at once, reload the file. */
import type { Terminal } from './command.ts'

/**
 * Two signals within this time count as one. `npm start` forwards the Ctrl-C that the terminal has already sent to the whole process
 * group, milliseconds later.
 */
const SAME_SIGNAL_MS = 500

/** SIGTERM and SIGINT: the first one stops the gateway, a second one ends the process at once. */
export class Signals {
  /** Resolves with the first SIGTERM or SIGINT. */
  readonly first: Promise<NodeJS.Signals>
  readonly #hangups = new ReloadSignals()
  #onSecond: () => void = () => {}

  constructor ({ err }: Terminal) {
    const { promise, resolve } = Promise.withResolvers<NodeJS.Signals>()
    this.first = promise
    let firstAtMs: number | null = null
    const onSignal = (signal: NodeJS.Signals) => {
      if (firstAtMs !== null && performance.now() - firstAtMs < SAME_SIGNAL_MS) return
      if (firstAtMs !== null) {
        err(`onceway: ${signal} again: ending at once. Requests in flight become indeterminate.`)
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
    this.#hangups.onReload(reload)
  }

  /** `end` runs before the process exits at a second signal. */
  onSecond (end: () => void): void {
    this.#onSecond = end
  }
}

/** SIGHUP reloads. It is handled from the start, because it would end the process by default. An early one is kept for later. */
class ReloadSignals {
  #early = false
  #reload: (() => void) | null = null

  constructor () {
    process.on('SIGHUP', () => {
      if (this.#reload === null) this.#early = true
      else this.#reload()
    })
  }

  onReload (reload: () => void): void {
    this.#reload = reload
    if (this.#early) reload()
  }
}
