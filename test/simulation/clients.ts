/**
 * The clients of a simulated world. They send, retry with the same key until they have a final answer or give up, hang up, and try another
 * gateway. Everything that they see goes into the history.
 */
import type { HandedRequest } from '../harness/handled.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'
import { Steps } from '../../src/gateway/shared/steps.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { handle } from '../harness/handled.ts'
import { requestOf, toldBy } from '../crash/outside.ts'
import type { Told } from '../harness/history.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Chance } from './chance.ts'
import type { HistoryKeeper } from './history-keeper.ts'
import type { SimulatedProcess } from './process.ts'
import type { Reach } from './reach.ts'
import type { SimulatedClient } from './schedule.ts'
import type { Identities } from './schemes.ts'

/** One gateway of the world, the process that is it just now, and the route that its configuration has. */
export interface Seat {
  readonly process: SimulatedProcess
  readonly gateway: Gateway
  route: GuardedRoute
  /** It has read the arbiter's clock, and listens. */
  serves: boolean
  /** A reload. */
  readonly become: (variant: number) => void
}

export interface ClientsOptions {
  readonly timeline: Timeline
  readonly chance: Chance
  readonly keeper: HistoryKeeper
  readonly reach: Reach
  /** Of the first configuration: what a client knows of the API. */
  readonly route: GuardedRoute
  readonly seats: readonly Seat[]
  readonly identities: Identities
  /** By which configuration a request was taken. */
  readonly routes: Map<string, GuardedRoute>
  readonly trouble: string[]
  readonly reachesArbiter: (gateway: number) => boolean
}

/** Share of the pause between two tries that is always waited. */
const JITTER_MIN = 0.5

export class Clients {
  readonly #options: ClientsOptions
  /** Who has asked, and how far his request has come. */
  readonly #asked = new Map<string, { readonly client: SimulatedClient, readonly steps: Steps }>()
  /** Calls that were answered by a gateway that could not reach the arbiter just then. */
  readonly cutOff = new Set<string>()
  #calls = 0

  constructor (options: ClientsOptions) {
    this.#options = options
  }

  /** Until every one of them has come to an end; trouble if that takes longer than `ms`. */
  async serve (clients: readonly SimulatedClient[], ms: number): Promise<void> {
    const { timeline, trouble } = this.#options
    let waiting = clients.length
    for (const client of clients) {
      void this.#insist(client)
        .catch((error: unknown) => { trouble.push(`a client failed: ${String(error)}`) })
        .finally(() => { waiting-- })
    }
    if (!await timeline.pass(() => waiting === 0, ms)) trouble.push(`${waiting} of ${clients.length} clients still wait after ${ms} ms`)
  }

  async #insist (client: SimulatedClient): Promise<void> {
    const { timeline, chance, route } = this.#options
    await timeline.sleep(client.startsAtMs)
    let unknowns = 0
    for (let tries = 0; tries < client.triesMax; tries++) {
      const [first, later] = client.leavesAfterMs
      const told = await this.ask(client, client.gateway + (client.roams ? tries : 0), tries === 0 ? first : later)
      if (told?.kind === 'unknown') unknowns++
      if (isFinal(told) || (unknowns > 1 && staysUnknown(route))) return
      await timeline.sleep(client.retryMs * (JITTER_MIN + chance.unit()))
    }
  }

  /** null: nobody listens there, the connection broke, or the client hung up. */
  async ask (client: SimulatedClient, gateway: number, leavesAfterMs: number | null): Promise<Told | null> {
    const { timeline, keeper, seats } = this.#options
    const seat = seats[gateway % seats.length]
    if (seat?.process.alive !== true || !seat.serves) return null
    const call = `call-${++this.#calls}`
    const told = Promise.withResolvers<Told | null>()
    const gone = Promise.withResolvers<void>()
    let open = true
    const end = (answer: Told | null): void => {
      if (!open) return
      open = false
      keeper.note(
        answer === null ? { kind: 'cut', atMs: timeline.nowMs, call } : { kind: 'told', atMs: timeline.nowMs, call, told: answer }
      )
      gone.resolve()
      told.resolve(answer)
    }
    const steps = new Steps()
    this.#asked.set(call, { client, steps })
    keeper.note({ kind: 'asked', atMs: timeline.nowMs, call, record: '', scope: '', asked: client.body })
    void seat.process.death.then(() => { end(null) })
    if (leavesAfterMs !== null) timeline.after(leavesAfterMs, () => { if (open) this.#leave(seat, steps, end) })
    seat.process.enter(() => { this.#handle(seat, { ...requestOf(client, seat.route, call, gone.promise), steps }, end) })
    return told.promise
  }

  #handle ({ process, gateway }: Seat, request: HandedRequest, end: (told: Told) => void): void {
    const { routes, reach, trouble, reachesArbiter } = this.#options
    const { route, requestId: call } = request
    routes.set(call, route)
    handle(gateway, request)
      .then(async (outcome) => {
        if (outcome.kind === 'rejected' && outcome.code === 'overloaded') reach.turns.add('overloaded')
        if (outcome.kind === 'unavailable' && gateway.ids.blocked !== null) reach.turns.add('gateway without the secret')
        const told = await toldBy(outcome, route)
        if (!reachesArbiter(process.gateway)) this.cutOff.add(call)
        process.enter(() => { end(told) })
      })
      .catch((error: unknown) => { trouble.push(`${call}: ${String(error)}`) })
  }

  #leave ({ gateway }: Seat, { record = '' }: Steps, end: (told: null) => void): void {
    const { turns } = this.#options.reach
    turns.add('client left')
    const execution = gateway.executions.get(record)
    if (execution !== undefined && execution.sending !== null) turns.add('client left its own execution')
    end(null)
  }

  /** Whose call it was. */
  clientOf (call: string): SimulatedClient {
    const found = this.#asked.get(call)
    if (found === undefined) throw new RangeError(`nobody has asked ${call}`)
    return found.client
  }

  /** What it was about in the end, by the word of whoever answered it; null: it came to nobody who would know. */
  recordOf (call: string): string | null {
    return this.#asked.get(call)?.steps.record ?? null
  }
}

/** Whoever is told that an outcome is not known is told so again. */
export function staysUnknown ({ idempotency: { unknown, profile, inboxFor } }: GuardedRoute): boolean {
  return unknown === 'hold' || (inboxFor === 'all' && profile === 'api')
}

export function isFinal (told: Told | null): boolean {
  return told !== null && ['stored', 'replayed', 'tombstone', 'mismatch', 'accepted'].includes(told.kind)
}
