/**
 * The arbiter's clock as this gateway believes it (core/protocol/arbiter-time.ts). Every sign of life reads it. A step ahead is this
 * process's own finding first: perhaps its machine stood still without a clock that knows. A gateway that trusted the time before
 * and finds nothing wrong with it since says so by its own signs of life; where nobody does, the finding is everybody's, until
 * an operator confirms the time or whatever was kept before the step is over.
 */
import { believedMs, judgeTime, toleranceOf, trustConfirmed, trustFrom, trustReported } from '../../core/protocol/arbiter-time.ts'
import type { TimeReading, TrustedTime } from '../../core/protocol/arbiter-time.ts'
import { OWNER_BYTES } from '../../core/record/record.ts'
import type { Beaten, RecordStore, SignOfLife } from '../../ports/records.ts'
import type { Clock, Random } from '../../ports/clock.ts'
import type { Log, Meter } from '../../ports/telemetry.ts'

export interface ArbiterClockOptions {
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  readonly meter: Pick<Meter, 'arbiterAhead' | 'arbiterStepped'>
  readonly instance: string
  readonly shortestLeaseMs: number
  /** The longest that anything is kept. */
  readonly longestKeepMs: number
}

/** What was acknowledged last. */
export interface Sign { readonly beat: number, readonly beaten: Beaten }

/** How long a worker that is not heard of keeps what it has. */
export const WORKER_LEASE_MS = 15_000

/** How long a finding waits for somebody who says otherwise: whoever lives has given two signs of life by then, and judged twice. */
const CONTRADICTED_WITHIN_MS = WORKER_LEASE_MS

interface Doubt { readonly foundMs: number, readonly foundAtBootMs: number, readonly aheadMs: number }

export class ArbiterClock {
  readonly #options: ArbiterClockOptions
  readonly #toleranceMs: number
  /** Its name in the store, drawn at its start. */
  readonly gateway: Buffer
  #beats = 0
  #keepMs: number
  /** null: no reading yet, or the word of others that the clock is ahead holds. */
  #trusted: TrustedTime | null = null
  #doubt: Doubt | null = null
  /** By somebody else's word, */
  #toldAheadMs = 0
  /** and what is trusted by it: by that a clock is known that has been set back. */
  #told: TrustedTime | null = null
  #reading: TimeReading | null = null
  #confirmations: number | null = null
  /** What was believed at the last reading, and the monotonic clock then: between two readings a sleep counts for nothing. */
  #believed: { readonly storeMs: number, readonly atMs: number } | null = null
  /** Another time is believed from now on, by which leases of the living may be over: they have one to renew them, from here. */
  onAnew: () => void = () => {}

  constructor (options: ArbiterClockOptions) {
    this.#options = options
    this.#toleranceMs = toleranceOf(options.shortestLeaseMs)
    this.#keepMs = options.longestKeepMs
    this.gateway = options.random.bytes(OWNER_BYTES)
  }

  /** How far the arbiter's clock is ahead, as far as is known here; 0: nothing is wrong with it. */
  get aheadMs (): number { return this.#doubt?.aheadMs ?? this.#toldAheadMs }

  /** Unix milliseconds: the arbiter's time is not later than this. null: nothing is known yet. */
  believedMs = (): number | null => {
    if (this.#believed === null) return null
    return this.#believed.storeMs + this.#options.clock.monotonicMs() - this.#believed.atMs
  }

  /** A reload: only ever longer, as what was kept under the old configuration still is. */
  lengthen (keepMs: number): void {
    this.#keepMs = Math.max(this.#keepMs, keepMs)
  }

  /** One sign of life, and a second one where there is something to tell the others. */
  async beat (records: Pick<RecordStore, 'name' | 'beat'>, others: readonly Buffer[] = []): Promise<Sign> {
    const toldMs = this.#doubt?.aheadMs ?? 0
    const sign = await this.#beatOnce(records, others)
    return this.#doubt !== null && this.#doubt.aheadMs > toldMs + this.#toleranceMs ? this.#beatOnce(records, others) : sign
  }

  async #beatOnce (records: Pick<RecordStore, 'name' | 'beat'>, others: readonly Buffer[]): Promise<Sign> {
    const { clock } = this.#options
    const sign = { ...this.#sign(records.name === 'sqlite'), others }
    const beforeMs = clock.bootMs()
    const beaten = await records.beat(sign)
    this.#take({ beforeMs, afterMs: clock.bootMs(), storeMs: beaten.nowMs }, beaten)
    return { beat: sign.beat, beaten }
  }

  /** `alone`: nobody else serves from this store, so that nobody can say otherwise. */
  #sign (alone: boolean): SignOfLife {
    const { clock, instance } = this.#options
    const [doubt, trusted] = [this.#doubt, this.#trusted]
    const doubtedForMs = doubt === null ? 0 : clock.bootMs() - doubt.foundAtBootMs
    return {
      gateway: this.gateway,
      instance,
      beat: ++this.#beats,
      aheadMs: doubt?.aheadMs ?? 0,
      time: {
        confirmations: this.#confirmations ?? 0,
        trusted: trusted === null ? null : { sinceMs: trusted.sinceMs, judgedMs: trusted.rightMs },
        doubt: doubt === null || trusted === null ? null : { afterMs: trusted.rightMs, foundMs: doubt.foundMs },
        shareForMs: doubt !== null && (alone || doubtedForMs >= CONTRADICTED_WITHIN_MS) ? Math.max(0, this.#keepMs - doubtedForMs) : null
      }
    }
  }

  #take (reading: TimeReading, beaten: Beaten): void {
    const before = this.#reading
    const isConfirmed = this.#confirmations !== null && beaten.confirmations !== this.#confirmations
    this.#reading = reading
    this.#confirmations = beaten.confirmations
    if (isConfirmed) this.#confirm(before, reading, beaten)
    else if (this.#trusted === null) this.#hear(reading, beaten)
    else this.#judge(this.#trusted, reading, beaten)
    this.#note(reading)
    this.#options.meter.arbiterAhead(this.aheadMs)
  }

  /** Up to the moment of the operator's word: what has stepped since then is as wrong as before. */
  #confirm (before: TimeReading | null, reading: TimeReading, beaten: Beaten): void {
    const confirmedMs = beaten.confirmedMs ?? null
    const trusted = before === null || confirmedMs === null ? trustFrom(reading) : trustConfirmed(confirmedMs, before)
    this.#believeAnew(trusted, 'an operator has confirmed the time of the store: it is believed as it was then')
    this.onAnew()
    this.#judge(trusted, reading, beaten)
  }

  /** Without an own word: as others say, or as it is. */
  #hear (reading: TimeReading, { aheadMs, aheadAfterMs = null, suspectedMs = 0 }: Beaten): void {
    if (this.#isSetBack(reading)) return
    const toldMs = Math.max(aheadMs, suspectedMs)
    if (toldMs === 0) this.#told = null
    else if (aheadMs > 0 && aheadAfterMs !== null) this.#told ??= trustReported(reading, aheadMs, aheadAfterMs)
    if (toldMs > 0 && this.#toldAheadMs === 0) this.#tellAhead(toldMs, 'as another gateway has found')
    if (toldMs === 0 && this.#toldAheadMs > 0) {
      this.#options.log.warn({}, 'nobody finds the clock of the store ahead any more: its time is believed as it is')
    }
    this.#toldAheadMs = toldMs
    if (toldMs === 0) this.#trusted = trustFrom(reading)
  }

  /** By what others have said before this reading. */
  #isSetBack (reading: TimeReading): boolean {
    if (this.#told === null) return false
    const { trusted, aheadMs } = judgeTime(this.#told, reading, this.#toleranceMs)
    this.#told = trusted
    if (aheadMs > 0) return false
    this.#believeAnew(trusted, 'the clock of the store has been set back: its time is believed again')
    return true
  }

  #judge (before: TrustedTime, reading: TimeReading, beaten: Beaten): void {
    const { trusted, aheadMs } = judgeTime(before, reading, this.#toleranceMs)
    this.#trusted = trusted
    if (aheadMs === 0) {
      if (this.#doubt !== null) this.#options.log.warn({}, 'the clock of the store has been set back: its time is believed again')
      this.#doubt = null
      // It was so before this process came to trust it.
      if (beaten.aheadMs > 0 && trusted.sinceMs > (beaten.aheadAfterMs ?? Infinity)) this.#hear(reading, beaten)
      if (this.#toldAheadMs > 0) this.#trusted = null
    } else if (this.#doubt === null) {
      this.#doubt = { foundMs: reading.storeMs, foundAtBootMs: reading.afterMs, aheadMs }
      this.#options.meter.arbiterStepped()
      this.#tellAhead(aheadMs, 'by this gateway\'s own clock')
    } else if (beaten.contradicted === true) {
      this.#believeAnew(
        trustFrom(reading),
        'this process stood still, and its clocks do not know: other gateways find nothing wrong with the time of the store'
      )
      this.onAnew()
    } else if (reading.afterMs - this.#doubt.foundAtBootMs >= this.#keepMs) {
      this.#believeAnew(
        trustFrom(reading),
        'what was kept when the clock of the store stepped ahead is over by now: its time is believed as it is'
      )
    } else this.#doubt = { ...this.#doubt, aheadMs }
  }

  #believeAnew (trusted: TrustedTime, why: string): void {
    const { aheadMs } = this
    this.#doubt = null
    this.#toldAheadMs = 0
    this.#told = null
    this.#trusted = trusted
    this.#options.log.warn({ aheadMs: Math.round(aheadMs) }, why)
  }

  #note ({ beforeMs, afterMs, storeMs }: TimeReading): void {
    // What steps once more while the others' word holds is believed no more than the first step.
    const trusted = this.#trusted ?? this.#told
    const trustedMs = trusted === null ? storeMs + afterMs - beforeMs - this.#toldAheadMs : believedMs(trusted, afterMs)
    this.#believed = { storeMs: trustedMs, atMs: this.#options.clock.monotonicMs() }
  }

  #tellAhead (aheadMs: number, found: string): void {
    this.#options.log.error(
      { aheadMs: Math.round(aheadMs) },
      `the clock of the store has stepped ahead, ${found}: nothing lapses, is swept or counts as expired until it is set back, its time is confirmed (onceway clock confirm), or all that is kept now would be over`
    )
  }
}
