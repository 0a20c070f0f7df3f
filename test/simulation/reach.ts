/**
 * What a schedule reached: the states and turns that a simulation must cover before its silence proves anything. Most are read from the
 * history. The rest comes from the wires, and from the gateway's meter and log.
 */
import type { Log, Meter, ProbeResult } from '../../src/ports/telemetry.ts'
import type { AcceptResult } from '../../src/ports/inbox.ts'
import type { ClaimResult, Lapsed, LapseOrder, SettleResult } from '../../src/ports/records.ts'
import type { LockResult } from '../../src/ports/locks.ts'
import type { Settlement } from '../../src/core/record/record.ts'
import type { EventOf, HistoryEvent } from '../harness/history.ts'
import type { SimulatedProcess } from './process.ts'
import type { SimulatedClient } from './schedule.ts'
import type { Identities } from './schemes.ts'

/** In the order of the table that every run prints. */
export const TURNS = [
  'process died', 'process died with a claim', 'process stopped', 'machine suspended', 'process drained', 'cut off at the end of a drain',
  'way to a store cut', 'message lost or late', 'redis flushed', 'redis failed over', 'redis back from an old snapshot', 'wall clock set',
  'configuration reloaded', 'configuration reloaded under a request', 'arbiter\'s clock stepped forward',
  'arbiter\'s clock stepped back', 'clock stepped, and nobody knew',
  'commits hung', 'commits hung, then the standby took over', 'row of a claim locked', 'page of a hop', 'accepted instead of executed',
  'claim in doubt', 'confirm won', 'claim given up in time', 'released unsent late', 'redraw',
  'lease refused at the last point', 'lease lost', 'resumed after its lease was taken', 'lapse by the sweeper', 'lapse by a claimant',
  'take-over with retry', 'take of a released key', 'late settle after a lapse', 'settle of a lost row', 'settle tried again',
  'settle fenced', 'fenced, another answer stored', 'answer given unsettled', 'unsettled copy adopted', 'unsettled copy refused',
  'replayed from redis', 'replayed from the row', 'waited in flight', 'watched another process', 'mismatch', 'mismatch in flight',
  'consumed', 'tombstone told', 'hop answer', 'outcome unknown told', 'client left', 'client left its own execution',
  'queued beyond the lease',
  'new life', 'swept', 'overloaded',
  'operator completed', 'operator consumed', 'operator released', 'late answer after a release by hand', 'operator deleted',
  'probe found', 'probe found nothing', 'probe released', 'probe overtaken',
  'scheme switched', 'scheme switched under a request', 'scheme switched again', 'switch lost', 'switch forgotten', 'told of another id',
  'found under an earlier id', 'gateway without the secret', 'blocked gateway given its secret',
  'lost secret: outcome unknown', 'callers taken for one', 'hosts of one caller'
] as const
export type Turn = typeof TURNS[number]

export class Reach {
  readonly turns = new Set<Turn>()
  readonly log: Log
  readonly meter: Meter

  readonly #leaseMs: number

  constructor (leaseMs: number, failed: (fields: object) => void) {
    this.#leaseMs = leaseMs
    this.log = {
      debug: () => {},
      info: () => {},
      warn: (_, message) => { if (message.startsWith('claim not decided in time')) this.turns.add('claim given up in time') },
      error: (fields, message) => { if (message === 'background work failed') failed(fields) }
    }
    this.meter = meterOf({
      leaseLost: () => { this.turns.add('lease lost') },
      settleFenced: () => { this.turns.add('settle fenced') },
      settleRetried: () => { this.turns.add('settle tried again') },
      answeredUnsettled: () => { this.turns.add('answer given unsettled') },
      indeterminate: (_, stage) => { if (stage === 'hop') this.turns.add('hop answer') },
      probed: (_, result) => { const turn = PROBED[result]; if (turn !== undefined) this.turns.add(turn) },
      waiters: () => { this.turns.add('waited in flight') },
      swept: () => { this.turns.add('swept') }
    })
  }

  /** A call was applied in a store. */
  readonly applied = (process: SimulatedProcess, operation: string, args: readonly unknown[], result: unknown): void => {
    switch (operation) {
      case 'confirm':
      case 'insert': return this.#claimed(process, operation, result as ClaimResult)
      case 'accept':
        if ((result as AcceptResult).kind === 'moved') this.turns.add('told of another id')
        return
      case 'mayBeLost':
        if (result === true) this.turns.add('lost secret: outcome unknown')
        return
      case 'settle':
      case 'settleLost': return this.#settled(process, operation, args[0] as Settlement, result as SettleResult)
      case 'lapse': return this.#lapsed(args[0] as LapseOrder, result as Lapsed[])
      case 'lock':
        if ((result as LockResult).kind === 'copy') this.turns.add('replayed from redis')
        return
      case 'watch': this.turns.add('watched another process')
    }
  }

  readonly asked = (may: boolean, waitedMs: number): void => {
    if (!may) this.turns.add('lease refused at the last point')
    else if (waitedMs > this.#leaseMs) this.turns.add('queued beyond the lease')
  }

  #claimed (process: SimulatedProcess, operation: string, result: ClaimResult): void {
    if (operation === 'confirm') this.turns.add(result.kind === 'won' ? 'confirm won' : 'claim in doubt')
    if (result.kind === 'moved') this.turns.add('told of another id')
    if (result.kind !== 'seen') return
    const own = process.drawn.has(result.row.owner.toString('hex'))
    if (own && result.row.state === 'indeterminate' && operation === 'confirm') this.turns.add('redraw')
    if (result.row.state === 'completed') this.turns.add('replayed from the row')
  }

  #settled (process: SimulatedProcess, operation: string, { token, outcome }: Settlement, result: SettleResult): void {
    const adopted = outcome === 'completed' && !process.drawn.has(token.owner.toString('hex'))
    if (adopted) this.turns.add(result.kind === 'settled' ? 'unsettled copy adopted' : 'unsettled copy refused')
    if (operation === 'settleLost' && result.kind === 'settled') this.turns.add('settle of a lost row')
    if (result.kind === 'refused' && !adopted && result.row?.state === 'completed' && !result.row.owner.equals(token.owner)) {
      this.turns.add('fenced, another answer stored')
    }
  }

  #lapsed ({ ids }: LapseOrder, lapsed: readonly Lapsed[]): void {
    if (lapsed.length > 0) this.turns.add(ids === null ? 'lapse by the sweeper' : 'lapse by a claimant')
  }

  /** What can be read from the whole history. */
  read (events: readonly HistoryEvent[], identities: Identities, clientOf: (call: string) => SimulatedClient): void {
    this.#readCallers(events, identities, clientOf)
    const written = new Map<string, EventOf<'claimed' | 'settled'>>()
    const sent = new Set<string>()
    const records = new Map<string, string>()
    for (const event of events) {
      if (event.kind === 'sent') sent.add(`${event.record} ${event.attempt}`)
      if (event.kind === 'asked') records.set(event.call, event.record)
      if (event.kind === 'told') this.#told(event, written.get(records.get(event.call) ?? ''))
      if (event.kind === 'deleted') this.turns.add('operator deleted')
      if (event.kind !== 'claimed' && event.kind !== 'settled') continue
      this.#written(event, written.get(event.record), sent)
      written.set(event.record, event)
    }
  }

  #readCallers (events: readonly HistoryEvent[], identities: Identities, clientOf: (call: string) => SimulatedClient): void {
    const callers = new Map<string, string>()
    const hosts = new Map<string, string>()
    /** Behind the switch, about what is older than it. */
    const earlier = new Set<string>()
    const switchedAt = events.findIndex(({ kind }) => kind === 'switched')
    for (const [place, event] of events.entries()) {
      if (event.kind !== 'asked' && event.kind !== 'sent') continue
      const client = clientOf(event.call)
      const caller = identities.callerOf(client)
      if ((callers.get(event.record) ?? caller) !== caller) this.turns.add('callers taken for one')
      callers.set(event.record, caller)
      const alone = identities.callerOf({ ...client, host: undefined })
      if ((hosts.get(alone) ?? caller) !== caller) this.turns.add('hosts of one caller')
      hosts.set(alone, caller)
      if (switchedAt !== -1 && place > switchedAt && event.kind === 'asked' && identities.of(client).records.indexOf(event.record) === 0) {
        earlier.add(event.call)
      }
    }
    if (events.some((event) => event.kind === 'told' && event.told.kind === 'replayed' && earlier.has(event.call))) {
      this.turns.add('found under an earlier id')
    }
  }

  #told ({ told }: EventOf<'told'>, written: EventOf<'claimed' | 'settled'> | undefined): void {
    if (told.kind === 'mismatch') this.turns.add(written?.kind === 'claimed' ? 'mismatch in flight' : 'mismatch')
    if (told.kind === 'accepted') this.turns.add('accepted instead of executed')
    if (told.kind === 'tombstone') this.turns.add('tombstone told')
    if (told.kind === 'unknown') this.turns.add('outcome unknown told')
  }

  #written (event: EventOf<'claimed' | 'settled'>, before: EventOf<'claimed' | 'settled'> | undefined, sent: ReadonlySet<string>): void {
    if (event.kind === 'claimed') {
      if (before?.kind !== 'settled') return
      if (event.attempt === 1) this.turns.add('new life')
      else this.turns.add(before.outcome === 'released' ? 'take of a released key' : 'take-over with retry')
      return
    }
    if (event.outcome === 'consumed' && event.by === 'owner') this.turns.add('consumed')
    if (event.by === 'operator') this.turns.add(OPERATED[event.outcome] ?? 'operator completed')
    const again = before?.kind === 'settled' && before.owner === event.owner && event.by === 'owner'
    if (again && before.by === 'lease') {
      this.turns.add(
        event.outcome === 'released' && !sent.has(`${event.record} ${event.attempt}`) ? 'released unsent late' : 'late settle after a lapse'
      )
    }
    if (again && before.by === 'operator' && before.outcome === 'released') this.turns.add('late answer after a release by hand')
  }
}

const PROBED: Readonly<Partial<Record<ProbeResult, Turn>>> = {
  found: 'probe found',
  nothing: 'probe found nothing',
  released: 'probe released',
  overtaken: 'probe overtaken'
}

const OPERATED: Readonly<Record<string, Turn>> = {
  completed: 'operator completed',
  consumed: 'operator consumed',
  released: 'operator released'
}

/** Every method of the meter, the ones given and the others that count nothing. */
function meterOf (counts: Partial<Meter>): Meter {
  const nothing = (): void => {}
  return new Proxy(counts, { get: (target, name) => Reflect.get(target, name) as unknown ?? nothing }) as Meter
}
