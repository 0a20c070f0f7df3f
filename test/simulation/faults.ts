/**
 * What a fault does to the simulated world: processes die, stop, drain and are configured anew, ways are cut, stores lose
 * what they had, clocks are set. When a fault comes is the schedule's business (schedule.ts, director.ts).
 */
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { Timeline } from '../harness/timeline.ts'
import { nameOf } from '../crash/watched.ts'
import type { SimulatedArbiter } from './arbiter.ts'
import type { Seat } from './clients.ts'
import type { HistoryKeeper } from './history-keeper.ts'
import type { Living } from './living.ts'
import type { Network } from './network.ts'
import type { Reach } from './reach.ts'
import type { Action } from './schedule.ts'
import { nameOfScheme } from './schemes.ts'
import type { SimulatedRedis } from './stores.ts'

export interface FaultsOptions {
  readonly timeline: Timeline
  readonly reach: Reach
  readonly network: Network
  readonly arbiter: SimulatedArbiter
  readonly redis: SimulatedRedis
  readonly keeper: HistoryKeeper
  readonly living: Living
  readonly trouble: string[]
  readonly seats: Seat[]
  /** Which configuration each gateway has; its next process starts with it. */
  readonly variants: number[]
  /** So with the secrets that it lacks. */
  readonly lacking: Set<number>
  /** No fault comes any more. */
  readonly calm: () => boolean
  readonly configurations: number
  readonly start: (gateway: number) => Seat
}

const CUT_OFF_MS = 5_000
/** An operator who comes again until he is told that it is done, or that it was. */
const SWITCH_AGAIN_MS = 400
const SWITCH_TRIES_MAX = 80

export class Faults {
  readonly #options: FaultsOptions

  constructor (options: FaultsOptions) {
    this.#options = options
  }

  act (action: Action): void {
    const { reach: { turns }, seats, network, redis, arbiter, living } = this.#options
    switch (action.kind) {
      case 'crash': return this.#crash(action.gateway, action.restartMs)
      case 'drain':
        void this.#drain(action).catch((error: unknown) => { this.#options.trouble.push(String(error)) })
        return undefined
      case 'pause': return this.#pause(action)
      case 'clock':
        turns.add('wall clock set')
        // To the gateway it is as if its machine had been suspended: it gives up what it has not sent.
        return seats[action.gateway]?.process.setWallClock(action.byMs)
      case 'cut':
        turns.add('way to a store cut')
        for (const gateway of action.gateways) living.hinder(gateway, action.forMs)
        return network.cut(action)
      case 'flush':
        turns.add('redis flushed')
        return redis.flush()
      case 'failover':
        turns.add('redis failed over')
        return redis.failOver(action.lostMs)
      case 'snapshot':
        turns.add('redis back from an old snapshot')
        return redis.failOver(action.lostMs)
      case 'configure': return this.#configure(action)
      case 'step':
        turns.add(action.byMs > 0 ? 'arbiter\'s clock stepped forward' : 'arbiter\'s clock stepped back')
        return arbiter.step(action.byMs)
      case 'hang':
        turns.add(action.promoted ? 'commits hung, then the standby took over' : 'commits hung')
        return arbiter.hang(action)
      case 'row-lock': return this.#lockRows(action.forMs)
      case 'amnesia':
        if (arbiter.scheme > FIRST_SCHEME) turns.add('switch forgotten')
        return arbiter.forget()
      case 'switch':
        void this.#switch(action).catch((error: unknown) => { this.#options.trouble.push(String(error)) })
        return undefined
      case 'secrets': return this.#give(action.gateway)
      case 'message': turns.add('message lost or late')
    }
  }

  #crash (number: number, restartMs: number): void {
    const { seats, reach } = this.#options
    const seat = seats[number]
    if (seat?.process.alive !== true) return
    reach.turns.add('process died')
    if (this.#holdsClaim(seat)) reach.turns.add('process died with a claim')
    seat.process.die()
    this.#replace(number, restartMs)
  }

  #replace (number: number, restartMs: number): void {
    const { timeline, seats, start } = this.#options
    timeline.after(restartMs, () => { seats[number] = start(number) })
  }

  #pause ({ gateway, forMs, clock }: Extract<Action, { kind: 'pause' }>): void {
    const { seats, reach, timeline, living } = this.#options
    const seat = seats[gateway]
    if (seat?.process.alive !== true) return
    reach.turns.add(clock === 'runs' ? 'process stopped' : 'machine suspended')
    living.hinder(gateway, forMs)
    seat.process.stop(forMs, clock)
    const mine = this.#holdsClaim(seat)
    timeline.after(forMs, () => {
      if (mine && seat.process.alive && !this.#holdsClaim(seat)) reach.turns.add('resumed after its lease was taken')
    })
  }

  /** process/drain.ts: refuses, waits for what runs, cuts it off, goes. */
  async #drain ({ gateway: number, graceMs, restartMs }: Extract<Action, { kind: 'drain' }>): Promise<void> {
    const seat = this.#options.seats[number]
    if (seat?.process.alive !== true || seat.gateway.drain.refusing || !seat.serves) return
    const { process, gateway } = seat
    const { turns } = this.#options.reach
    turns.add('process drained')
    gateway.drain.advance('refusing')
    if (!await gateway.idle(graceMs)) {
      turns.add('cut off at the end of a drain')
      gateway.cutOff()
      await gateway.idle(CUT_OFF_MS)
    }
    gateway.stop()
    process.die()
    this.#replace(number, restartMs)
  }

  /** As reload.ts: in one step, between two requests. What is under way keeps the route that it came by. */
  #configure ({ gateway, variant, reloads }: Extract<Action, { kind: 'configure' }>): void {
    const { seats, variants, reach: { turns } } = this.#options
    const before = variants[gateway]
    // Drawn before it was known how many there are.
    if (before === undefined || before === variant || variant >= this.#options.configurations) return
    variants[gateway] = variant
    const seat = seats[gateway]
    if (!reloads || seat?.process.alive !== true) return
    if (seat.gateway.executions.size > 0) turns.add('configuration reloaded under a request')
    turns.add('configuration reloaded')
    seat.process.enter(() => { seat.become(variant) })
  }

  /** What is left of the scheme before the one that claims is waited for. */
  async #switch ({ to, isLost }: Extract<Action, { kind: 'switch' }>): Promise<void> {
    const { timeline, arbiter, seats, calm, reach: { turns } } = this.#options
    for (let tries = 0; tries < SWITCH_TRIES_MAX && !calm(); tries++) {
      const running = seats.some(({ gateway }) => gateway.executions.size > 0)
      const result = await arbiter.switchScheme(nameOfScheme(to), isLost)
      if (result?.kind === 'switched' && running) turns.add('scheme switched under a request')
      if (result?.kind === 'switched' && result.number > FIRST_SCHEME + 1) turns.add('scheme switched again')
      if (result === null) turns.add('switch lost')
      if (result?.kind === 'switched' || result?.kind === 'same') return
      await timeline.sleep(SWITCH_AGAIN_MS)
    }
  }

  #give (number: number): void {
    const { seats, lacking, variants, reach: { turns } } = this.#options
    const seat = seats[number]
    if (!lacking.delete(number) || seat?.process.alive !== true) return
    if (seat.gateway.ids.blocked !== null) turns.add('blocked gateway given its secret')
    seat.process.enter(() => { seat.become(variants[number] ?? 0) })
  }

  #lockRows (forMs: number): void {
    const { seats, arbiter, reach } = this.#options
    for (const seat of seats.filter(({ process }) => process.alive)) {
      for (const { keyed, owner, won } of seat.gateway.executions.all()) {
        if (!won) continue
        reach.turns.add('row of a claim locked')
        arbiter.lockRow(keyed.id, owner, forMs)
      }
    }
  }

  /** Is there a row that says claimed, by an execution of this process? */
  #holdsClaim ({ gateway }: Seat): boolean {
    return gateway.executions.all().some(({ keyed, owner, won }) => {
      const latest = this.#options.keeper.latest.get(keyed.name)
      return won && latest?.kind === 'claimed' && latest.owner === nameOf(owner)
    })
  }
}
