/**
 * Moves guarded requests along their way, as the table says (core/protocol/way.ts): one function for each action. http/ hands requests in
 * (`begin`) and writes their outcomes. Stores and upstreams say what happened (execution/guarded-request.ts). On the usual way of a first
 * request and of a replay nothing here makes a promise.
 */
import { WAY } from '../core/protocol/way.ts'
import type { Action, Cell, Event } from '../core/protocol/way.ts'
import { errorStack } from '../ports/errors.ts'
import { authorisationRefusal } from './authorise/authorise.ts'
import { answerIdentified, answerMoved, discardStream, join, waitElsewhere, withoutClaim } from './apart.ts'
import type { ApartContext } from './apart.ts'
import { claimRecord, decideByRow, decideClaim, lockRecord } from './claim/claim.ts'
import {
  beginExecution, endExecution, forgetClaim, forwardClaimed, giveBack, giveUpClaim, noteClaimed, noteForwarded, notePlaced, releaseAnswer,
  reserveAnswer, sendUnprotected, unlockLate
} from './execute.ts'
import type { ExecuteContext } from './execute.ts'
import type { ExecutionResult } from './execution/execution.ts'
import { GuardedRequest } from './execution/guarded-request.ts'
import type { Mover } from './execution/guarded-request.ts'
import { asAccepted, fromCache, fromDecision, inFlight, outcomeForStarter } from './execution/outcomes.ts'
import { maySend } from './forward/forward.ts'
import { findScope, identify, readBody } from './identify.ts'
import type { IncomingRequest } from './key/incoming-request.ts'
import { keepAnswer, settleOutcome, SETTLE_PATIENCE_MS, storeOutcome } from './settle/settle.ts'
import { IdentityMoved } from './shared/ids.ts'
import type { Outcome } from './shared/outcome.ts'
import { rejected } from './shared/outcome.ts'
import { linkTo } from './shared/steps.ts'

export interface WayContext extends ExecuteContext, ApartContext {
  /** The arbiter has acknowledged a write (E2b). */
  readonly confirmContact: () => void
  /** A call of the arbiter has failed. */
  readonly noteFault: (error: unknown) => void
}

/** null: the next event comes later. */
type Act = (request: GuardedRequest) => Event | null

export class Way implements Mover {
  readonly #context: WayContext
  readonly #acts: Readonly<Record<Action, Act>>

  constructor (context: WayContext) {
    this.#context = context
    this.#acts = {
      readBody: (request) => readBody(context, request),
      identify: (request) => identify(context, request, this.#aside),
      authorise: (request) => this.#authorise(request),
      recall: (request) => this.#recall(request),
      admit: (request) => this.#admit(request),
      lock: (request) => lockRecord(context, request),
      claim: (request) => claimRecord(context, request),
      decide: (request) => this.#decide(request),
      forward: (request) => this.#forward(request),
      settle: (request) => this.#settle(request),
      keep: (request) => done(keepAnswer(context, request)),
      store: (request) => this.#store(request),
      respond: (request) => done(this.#respond(request)),
      respondInFlight: (request) => done(this.#answer(request, inFlight(context.deps.clock, request, true))),
      answerDecision: (request) => this.#answerDecision(request),
      giveUp: (request) => this.#giveUp(request),
      unlock: (request) => unlockLate(context, request),
      giveBack: (request) => done(giveBack(context, request)),
      endSending: (request) => this.#endSending(request),
      cutOff: (request) => this.#cutOff(request),
      leave: (request) => done(endExecution(context, request))
    }
  }

  /** A request comes in. Its answer goes to `incoming`. */
  begin (incoming: IncomingRequest): void {
    const request = new GuardedRequest(incoming, this)
    try {
      const found = findScope(this.#context, request)
      if (typeof found === 'string') this.on(request, found)
      else this.#then(request, found, 'scoped')
    } catch (error) {
      this.#fail(request, error)
    }
  }

  /** Another try of a request that waits for an execution elsewhere, or is attended by another mode. It has a new execution, if any. */
  attempt (request: GuardedRequest, counted = false): Promise<Outcome> {
    const attended = Promise.withResolvers<Outcome>()
    const again = new GuardedRequest(request.incoming, this)
    again.reservation = request.reservation
    again.identifiedAs(request.keyed, request.parts)
    again.attended = attended
    again.counted = counted
    again.state = 'authorise'
    this.on(again, 'permitted')
    return attended.promise
  }

  on (request: GuardedRequest, event: Event): void {
    try {
      this.#move(request, event)
    } catch (error) {
      this.#fail(request, error)
    }
  }

  maySend (request: GuardedRequest): boolean { return maySend(this.#context, request) }

  placed (request: GuardedRequest): void { notePlaced(this.#context, request) }

  reserve (request: GuardedRequest, bytes: number): boolean { return reserveAnswer(this.#context, request, bytes) }

  ended (request: GuardedRequest, result: ExecutionResult): void {
    // Whoever writes it counts it again.
    releaseAnswer(this.#context, request)
    if (!request.answered) this.#answer(request, outcomeForStarter(result))
    else if (result.kind === 'streamed') this.#context.background(discardStream(result))
  }

  wrote (): void { this.#context.confirmContact() }

  unanswered (error: unknown): void { this.#context.noteFault(error) }

  #move (request: GuardedRequest, first: Event): void {
    for (let event: Event | null = first; event !== null;) {
      const cell: Cell = WAY[request.state][event]
      if (cell === 'kept') return
      if (cell === 'never') throw new Error(`a request in state ${request.state} was told: ${event}`)
      request.state = cell.to
      event = null
      for (const action of cell.do) event = this.#acts[action](request)
    }
  }

  // ---------------------------------------------------------------- before a claim

  #authorise (request: GuardedRequest): Event {
    const { incoming, keyed } = request
    // Authorisation, and limits per caller (`admit`), belong here: after the fingerprint, before any claim.
    const refusal = authorisationRefusal(this.#context.deps, incoming, keyed.asked.body)
    if (refusal !== null) return refused(request, refusal)
    const { drop, inbox } = incoming.route.idempotency
    return drop === null && inbox === null && this.#context.ids.lost === null
      ? 'permitted'
      : this.#aside(request, answerIdentified(this.#context, request))
  }

  #recall (request: GuardedRequest): Event {
    const { keyed } = request
    const cached = this.#context.replayCache.find(keyed.name)
    if (cached !== null) {
      linkTo(keyed.steps, cached)
      return refused(request, fromCache(keyed, cached))
    }
    const running = this.#context.executions.get(keyed.name)
    return running === undefined ? 'permitted' : this.#attend(request, join(this.#context, request, running))
  }

  #admit (request: GuardedRequest): Event {
    const { keyed } = request
    const refusal = this.#refusal(request)
    if (refusal !== null) return this.#attend(request, withoutClaim(this.#context, keyed, refusal))
    const counting = request.counted ? null : this.#context.recordCounts.check(keyed)
    // While it waits, another request may start the execution or fill the limits. So it looks for them again.
    if (counting !== null) return this.#attend(request, counting.then((beyond) => beyond ?? this.attempt(request, true)))
    const full = keyed.deferred ? this.#context.inbox.fullRefusal(keyed) : null
    if (full !== null) return this.#attend(request, withoutClaim(this.#context, keyed, full))
    beginExecution(this.#context, request)
    return 'permitted'
  }

  #refusal ({ keyed: { reservation } }: GuardedRequest): Outcome | null {
    const { drain, limits } = this.#context
    if (drain.refusing) return { kind: 'rejected', code: 'draining', close: true }
    if (limits.unsettled.full) return rejected('overloaded')
    return limits.shed('executions', limits.executing.refusal(1, reservation.holder))
  }

  // ---------------------------------------------------------------- its execution

  #decide (request: GuardedRequest): Event | null {
    const decision = request.state === 'over' ? null : decideByRow(this.#context, request)
    if (decision !== null) {
      request.decide(decision)
      return 'decided'
    }
    this.#background(request, decideClaim(this.#context, request).then((decision) => {
      const won = decision.kind === 'won'
      // Too late: the client has its answer (giveUp). What was won is given back.
      if (request.state === 'over' && !won) return forgetClaim(request)
      if (!won) request.decide(decision)
      this.on(request, won ? 'claimed' : 'decided')
    }))
    return null
  }

  #giveUp (request: GuardedRequest): null {
    giveUpClaim(this.#context, request)
    this.#answer(request, { kind: 'unavailable' })
    return null
  }

  #answerDecision (request: GuardedRequest): Event | null {
    const { decision, keyed } = request
    if (decision === null || decision.kind === 'won') throw new TypeError('a claim without a decision')
    noteClaimed(this.#context, request)
    if (request.sendsAfter(decision)) {
      request.answerDueMs = keyed.arrivedAtMs + keyed.route.idempotency.answerWithinMs
      request.stateDueMs = Infinity
      this.#context.deadlines.watch(request)
      this.#background(request, sendUnprotected(this.#context, request).finally(() => { endExecution(this.#context, request) }))
      return null
    }
    // Later duplicates make their own claim. Those that have joined get this claim's decision.
    endExecution(this.#context, request)
    if (decision.kind === 'moved') return this.#aside(request, Promise.reject(new IdentityMoved()))
    const outcome = fromDecision(decision)
    return outcome.kind === 'in-flight' ? this.#attend(request, Promise.resolve(outcome)) : refused(request, outcome)
  }

  #forward (request: GuardedRequest): null {
    const prepared = forwardClaimed(this.#context, request)
    if (prepared === null) return null
    this.#background(request, prepared.then((executed) => {
      if (executed === null) return
      request.executed = executed
      this.on(request, 'answered')
    }))
    return null
  }

  #settle (request: GuardedRequest): null {
    const { executed } = request
    if (executed === null) throw new TypeError('nothing was executed')
    if (executed.kind !== 'accepted' && executed.kind !== 'taken-by-another') noteForwarded(this.#context, request, executed)
    request.stateDueMs = this.#context.deps.clock.monotonicMs() + SETTLE_PATIENCE_MS
    this.#context.deadlines.watch(request)
    settleOutcome(this.#context, request, executed)
    return null
  }

  #store (request: GuardedRequest): null {
    request.stateDueMs = Infinity
    this.#then(request, storeOutcome(this.#context, request), 'settled')
    return null
  }

  #endSending (request: GuardedRequest): null {
    request.sending?.cancel('UPSTREAM_TIMEOUT', true)
    return null
  }

  /** What is not sent yet never is. */
  #cutOff (request: GuardedRequest): null {
    request.cancelled = true
    request.sending?.cancel('DRAIN', true)
    return null
  }

  // ---------------------------------------------------------------- its answer

  #respond (request: GuardedRequest): void {
    this.#answer(request, request.outcome ?? { kind: 'unknown', timedOut: false })
  }

  #answer (request: GuardedRequest, outcome: Outcome): void {
    if (request.answered) return
    request.answered = true
    request.answerDueMs = Infinity
    request.outcome = outcome
    if (request.attended !== null) return request.attended.resolve(outcome)
    const { incoming, isIdentified, reservation } = request
    if (isIdentified) {
      const { keyed } = request
      // It was attended, by an execution or a record.
      incoming.steps.waitMs = this.#context.deps.clock.monotonicMs() - keyed.arrivedAtMs
      incoming.answer(asAccepted(keyed, outcome))
    } else incoming.answer(outcome)
    reservation?.release()
  }

  /** Other code answers it. */
  readonly #aside = (request: GuardedRequest, work: Promise<Outcome>): Event => {
    this.#then(request, this.#outcomeOf(request, work), 'refused')
    return 'elsewhere'
  }

  /** The same. If its execution runs in another process, it waits, unless the one who attends it does. */
  #attend (request: GuardedRequest, work: Promise<Outcome>): Event {
    return this.#aside(
      request,
      request.attended === null ? work.then((outcome) => waitElsewhere(this.#context, request, outcome)) : work
    )
  }

  async #outcomeOf (request: GuardedRequest, work: Promise<Outcome>): Promise<void> {
    try {
      request.outcome = await work
    } catch (error) {
      if (!(error instanceof IdentityMoved)) throw error
      if (request.attended === null) {
        request.outcome = await answerMoved(this.#context, request)
      } else {
        request.answered = true
        request.attended.reject(error)
      }
    }
  }

  #then (request: GuardedRequest, work: Promise<void>, event: Event): void {
    this.#background(request, work.then(() => { this.on(request, event) }))
  }

  /** It rejects for bugs alone. */
  #background (request: GuardedRequest, work: Promise<void>): void {
    work.catch((error: unknown) => { this.#fail(request, error) })
  }

  /** A bug of the gateway. What was sent is settled as unknown when its lease ends. This client gets `outcome-unknown`. */
  #fail (request: GuardedRequest, error: unknown): void {
    const { incoming: { requestId, route } } = request
    this.#context.deps.log.error(
      { event: 'request-error', requestId, route: route.name, error: errorStack(error) },
      'request failed in the gateway'
    )
    request.state = 'over'
    // Nobody reads the rest.
    if (!request.answered) request.sending?.cancel('FAILED', false)
    forgetClaim(request)
    endExecution(this.#context, request)
    this.#answer(request, { kind: 'unknown', timedOut: false })
  }
}

function refused (request: GuardedRequest, outcome: Outcome): Event {
  request.outcome = outcome
  return 'refused'
}

function done (_result: void): null { return null }
