/**
 * This gateway's view of the arbiter's clock (core/protocol/arbiter-time.ts). Every heartbeat reads that clock.
 * A step ahead is first a suspicion of this process alone: its machine may have stood still without a clock that shows it.
 * Another gateway contradicts it with its own heartbeats, if it trusted the time before and sees no step since.
 * If no gateway contradicts, the suspicion applies to all gateways.
 * It ends when an operator confirms the time, or when everything that was kept before the step is over.
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
  /** The longest retention of anything. */
  readonly longestKeepMs: number
}

/** A heartbeat that the store acknowledged. */
export interface AcknowledgedBeat { readonly beat: number, readonly beaten: Beaten }

/** How long a silent worker keeps its messages. */
export const WORKER_LEASE_MS = 15_000

/** How long a suspicion waits for a contradiction. Every live gateway has sent two heartbeats by then, and judged twice. */
const CONTRADICTION_WINDOW_MS = WORKER_LEASE_MS

interface Doubt { readonly foundMs: number, readonly foundAtBootMs: number, readonly aheadMs: number }

export class ArbiterClock {
  readonly #options: ArbiterClockOptions
  readonly #toleranceMs: number
  /** The gateway's name in the store, drawn at its start. */
  readonly gateway: Buffer
  #beats = 0
  #keepMs: number
  /** null: no reading yet, or others report that the clock is ahead. */
  #trusted: TrustedTime | null = null
  #doubt: Doubt | null = null
  /** How far ahead the clock is, as other gateways report. */
  #reportedAheadMs = 0
  /** The time that is trusted by that report. It shows when the clock has been set back. */
  #reportedTrust: TrustedTime | null = null
  #reading: TimeReading | null = null
  #confirmations: number | null = null
  /** The time believed at the last reading, and the monotonic clock then. A sleep between two readings does not count. */
  #believed: { readonly storeMs: number, readonly atMs: number } | null = null
  /** Called when another time is believed. By it, leases of live gateways may be over. They have one lease from here to renew them. */
  onTrustReset: () => void = () => {}

  constructor (options: ArbiterClockOptions) {
    this.#options = options
    this.#toleranceMs = toleranceOf(options.shortestLeaseMs)
    this.#keepMs = options.longestKeepMs
    this.gateway = options.random.bytes(OWNER_BYTES)
  }

  /** How far the arbiter's clock is ahead, as known here. 0: it is right. */
  get aheadMs (): number { return this.#doubt?.aheadMs ?? this.#reportedAheadMs }

  /** Unix milliseconds. The arbiter's time is not later than this. null: no reading yet. */
  believedMs = (): number | null => {
    if (this.#believed === null) return null
    return this.#believed.storeMs + this.#options.clock.monotonicMs() - this.#believed.atMs
  }

  /** For a reload. It only grows: what was kept under the old configuration still is. */
  lengthen (keepMs: number): void {
    this.#keepMs = Math.max(this.#keepMs, keepMs)
  }

  /** Sends a heartbeat. Sends a second one if the first found a step that the other gateways must know of. */
  async beat (records: Pick<RecordStore, 'name' | 'beat'>, others: readonly Buffer[] = []): Promise<AcknowledgedBeat> {
    const announcedMs = this.#doubt?.aheadMs ?? 0
    const sign = await this.#beatOnce(records, others)
    return this.#doubt !== null && this.#doubt.aheadMs > announcedMs + this.#toleranceMs ? this.#beatOnce(records, others) : sign
  }

  async #beatOnce (records: Pick<RecordStore, 'name' | 'beat'>, others: readonly Buffer[]): Promise<AcknowledgedBeat> {
    const { clock } = this.#options
    const sign = { ...this.#sign(records.name === 'sqlite'), others }
    const beforeMs = clock.bootMs()
    const beaten = await records.beat(sign)
    this.#apply({ beforeMs, afterMs: clock.bootMs(), storeMs: beaten.nowMs }, beaten)
    return { beat: sign.beat, beaten }
  }

  /** `alone`: no other gateway uses this store, so none can contradict. */
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
        shareForMs: doubt !== null && (alone || doubtedForMs >= CONTRADICTION_WINDOW_MS) ? Math.max(0, this.#keepMs - doubtedForMs) : null
      }
    }
  }

  #apply (reading: TimeReading, beaten: Beaten): void {
    const before = this.#reading
    const isConfirmed = this.#confirmations !== null && beaten.confirmations !== this.#confirmations
    this.#reading = reading
    this.#confirmations = beaten.confirmations
    if (isConfirmed) this.#confirm(before, reading, beaten)
    else if (this.#trusted === null) this.#adoptReport(reading, beaten)
    else this.#judge(this.#trusted, reading, beaten)
    this.#updateBelief(reading)
    this.#options.meter.arbiterAhead(this.aheadMs)
  }

  /** Trusts the time up to the operator's confirmation. A step after it is as wrong as before. */
  #confirm (before: TimeReading | null, reading: TimeReading, beaten: Beaten): void {
    const confirmedMs = beaten.confirmedMs ?? null
    const trusted = before === null || confirmedMs === null ? trustFrom(reading) : trustConfirmed(confirmedMs, before)
    this.#resetTrust(trusted, 'an operator has confirmed the time of the store: it is believed as it was then')
    this.onTrustReset()
    this.#judge(trusted, reading, beaten)
  }

  /** Without an own judgement: believes the reports of others, or the clock as it is. */
  #adoptReport (reading: TimeReading, { aheadMs, aheadAfterMs = null, suspectedMs = 0 }: Beaten): void {
    if (this.#isSetBack(reading)) return
    const reportedMs = Math.max(aheadMs, suspectedMs)
    if (reportedMs === 0) this.#reportedTrust = null
    else if (aheadMs > 0 && aheadAfterMs !== null) this.#reportedTrust ??= trustReported(reading, aheadMs, aheadAfterMs)
    if (reportedMs > 0 && this.#reportedAheadMs === 0) this.#logAhead(reportedMs, 'as another gateway has found')
    if (reportedMs === 0 && this.#reportedAheadMs > 0) {
      this.#options.log.warn(
        { event: 'store-clock-believed' },
        'nobody finds the clock of the store ahead any more: its time is believed as it is'
      )
    }
    this.#reportedAheadMs = reportedMs
    if (reportedMs === 0) this.#trusted = trustFrom(reading)
  }

  /** Whether the clock was set back since others reported it ahead. */
  #isSetBack (reading: TimeReading): boolean {
    if (this.#reportedTrust === null) return false
    const { trusted, aheadMs } = judgeTime(this.#reportedTrust, reading, this.#toleranceMs)
    this.#reportedTrust = trusted
    if (aheadMs > 0) return false
    this.#resetTrust(trusted, 'the clock of the store has been set back: its time is believed again')
    return true
  }

  #judge (before: TrustedTime, reading: TimeReading, beaten: Beaten): void {
    const { trusted, aheadMs } = judgeTime(before, reading, this.#toleranceMs)
    this.#trusted = trusted
    if (aheadMs === 0) {
      if (this.#doubt !== null) {
        this.#options.log.warn(
          { event: 'store-clock-believed' },
          'the clock of the store has been set back: its time is believed again'
        )
      }
      this.#doubt = null
      // The clock was ahead before this process came to trust it.
      if (beaten.aheadMs > 0 && trusted.sinceMs > (beaten.aheadAfterMs ?? Infinity)) this.#adoptReport(reading, beaten)
      if (this.#reportedAheadMs > 0) this.#trusted = null
    } else if (this.#doubt === null) {
      this.#doubt = { foundMs: reading.storeMs, foundAtBootMs: reading.afterMs, aheadMs }
      this.#options.meter.arbiterStepped()
      this.#logAhead(aheadMs, 'by this gateway\'s own clock')
    } else if (beaten.contradicted === true) {
      this.#resetTrust(
        trustFrom(reading),
        'this process stood still, and its clocks do not know: other gateways find nothing wrong with the time of the store'
      )
      this.onTrustReset()
    } else if (reading.afterMs - this.#doubt.foundAtBootMs >= this.#keepMs) {
      this.#resetTrust(
        trustFrom(reading),
        'what was kept when the clock of the store stepped ahead is over by now: its time is believed as it is'
      )
    } else this.#doubt = { ...this.#doubt, aheadMs }
  }

  #resetTrust (trusted: TrustedTime, why: string): void {
    const { aheadMs } = this
    this.#doubt = null
    this.#reportedAheadMs = 0
    this.#reportedTrust = null
    this.#trusted = trusted
    this.#options.log.warn({ event: 'store-clock-believed', aheadMs: Math.round(aheadMs) }, why)
  }

  #updateBelief ({ beforeMs, afterMs, storeMs }: TimeReading): void {
    // While the others' report holds, a second step is believed no more than the first.
    const trusted = this.#trusted ?? this.#reportedTrust
    const trustedMs = trusted === null ? storeMs + afterMs - beforeMs - this.#reportedAheadMs : believedMs(trusted, afterMs)
    this.#believed = { storeMs: trustedMs, atMs: this.#options.clock.monotonicMs() }
  }

  #logAhead (aheadMs: number, found: string): void {
    this.#options.log.error(
      { event: 'store-clock-ahead', aheadMs: Math.round(aheadMs) },
      `the clock of the store has stepped ahead, ${found}: nothing lapses, is swept or counts as expired until it is set back, its time is confirmed (onceway clock confirm), or all that is kept now would be over`
    )
  }
}
