/**
 * What bounds the exports of a process, those of the API and those of the console: how many run at once, and for how long. Each holds a
 * page of rows, and asks the store without a pause.
 */
import { OperatorProblem } from '../../operator/shared/problem.ts'

const AT_ONCE_MAX = 4
const BUSY_RETRY_S = 30
/** Then its stream is destroyed. A client that reads no further holds its place until then. */
export const EXPORT_WITHIN_MS = 10 * 60_000
/** No page is read later, so that the last line still reaches a client that is only slow. */
export const PAGES_WITHIN_MS = EXPORT_WITHIN_MS - 60_000

let running = 0

/** Of one export, from before its first page until its end. */
export class ExportPlace {
  readonly #pagesUntil = performance.now() + PAGES_WITHIN_MS
  #isHeld = true

  private constructor () { running++ }

  static take (): ExportPlace | OperatorProblem {
    if (running < AT_ONCE_MAX) return new ExportPlace()
    return new OperatorProblem(
      'too-many-requests', `${AT_ONCE_MAX} exports are running. Try again when one is done.`, { retryAfterS: BUSY_RETRY_S }
    )
  }

  /** It may read no further page. */
  get isLate (): boolean { return performance.now() > this.#pagesUntil }

  /** Once, however often it is called. */
  giveBack (): void {
    if (this.#isHeld) running--
    this.#isHeld = false
  }
}
