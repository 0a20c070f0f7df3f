/**
 * What the gateways of a simulated world have reported to the arbiter about its time, as its driver stores it
 * (store/postgres/sign-of-life.ts): a row for each gateway, and one that all of them believe. It reads no clock.
 */
import type { Beaten, SignOfLife } from '../../src/ports/records.ts'

interface Word { readonly aheadMs: number, readonly sinceMs: number | null, readonly judgedMs: number | null, readonly seenAtMs: number }
interface Ahead { readonly aheadMs: number, readonly afterMs: number, readonly sinceMs: number, readonly untilMs: number }

/** Whoever has given no sign of life for so long says nothing any more. */
const HEARD_MS = 15_000

export class ClockWords {
  readonly #words = new Map<string, Word>()
  #ahead: Ahead | null = null
  #confirmations = 0
  #confirmedMs: number | null = null

  /** An operator's word, at this time of the arbiter's. */
  confirm (nowMs: number): void {
    this.#confirmations++
    this.#confirmedMs = nowMs
    this.#ahead = null
  }

  /** `nowMs`: the arbiter's. */
  beat ({ gateway, aheadMs, time }: SignOfLife, nowMs: number): Omit<Beaten, 'nowMs' | 'generation'> {
    const name = gateway.toString('hex')
    const { trusted = null, doubt = null } = time ?? {}
    this.#words.set(name, { aheadMs, sinceMs: trusted?.sinceMs ?? null, judgedMs: trusted?.judgedMs ?? null, seenAtMs: nowMs })
    const others = Array.from(this.#words).filter(([each]) => each !== name).map(([, word]) => word)
    const contradicted = doubt !== null &&
      others.some((word) =>
        word.aheadMs === 0 &&
        word.sinceMs !== null &&
        word.judgedMs !== null &&
        word.sinceMs <= doubt.afterMs &&
        word.judgedMs > doubt.foundMs)
    const suspectedMs = Math.max(0, ...others.filter(({ seenAtMs }) => Math.abs(nowMs - seenAtMs) < HEARD_MS).map((word) => word.aheadMs))
    const before = this.#holding(nowMs)
    const told = {
      confirmations: this.#confirmations,
      confirmedMs: this.#confirmedMs,
      aheadAfterMs: this.#ahead?.afterMs ?? null,
      suspectedMs,
      contradicted
    }
    if (
      doubt !== null &&
      time !== undefined &&
      time.shareForMs !== null &&
      !contradicted &&
      before === null &&
      time.confirmations === this.#confirmations
    ) {
      this.#ahead = { aheadMs, afterMs: doubt.afterMs, sinceMs: doubt.foundMs, untilMs: nowMs + time.shareForMs }
    }
    const isRight = before !== null &&
      aheadMs === 0 &&
      trusted !== null &&
      trusted.sinceMs <= before.afterMs &&
      (trusted.judgedMs > before.sinceMs || nowMs < before.sinceMs)
    if (isRight) this.#ahead = null
    return { ...told, aheadMs: isRight ? 0 : before?.aheadMs ?? 0 }
  }

  #holding (nowMs: number): Ahead | null {
    return this.#ahead !== null && this.#ahead.untilMs > nowMs ? this.#ahead : null
  }
}
