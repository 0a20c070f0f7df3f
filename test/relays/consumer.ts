/**
 * The consumer behind the gateway, in virtual time, at the gateway's upstream port: it is as slow as it is told, refuses
 * connections while it is down, answers 400 until it is mended, and dies in the middle of what it executes. It counts what
 * it did to success, and what it had under way at once.
 */
import type { UpstreamResult } from '../../src/ports/upstream.ts'
import { PromisedUpstream } from '../harness/promised-upstream.ts'
import type { PromisedSending, UpstreamRequest } from '../harness/promised-upstream.ts'
import type { Timeline } from '../harness/timeline.ts'

export interface Plan {
  readonly executesMs: number
  /** Refuses connections meanwhile. */
  readonly down?: { readonly fromMs: number, readonly untilMs: number }
  /** `down` begins with a SIGKILL: what is executed then never ends. */
  readonly killed?: boolean
  /** Answers 400 until then, having done nothing. */
  readonly mendedAtMs?: number
}

const CONNECT_MS = 1
const TOLD = ['Content-Type', 'application/json']

export class Consumer extends PromisedUpstream {
  readonly #timeline: Timeline
  readonly #plan: Plan
  readonly #running = new Map<string, Set<(result: UpstreamResult) => void>>()
  /** By message: how often it was executed to success, and the most executions of it at once. */
  readonly done = new Map<string, number>()
  readonly together = new Map<string, number>()

  constructor (timeline: Timeline, plan: Plan) {
    super()
    this.#timeline = timeline
    this.#plan = plan
    if (plan.killed === true && plan.down !== undefined) timeline.after(plan.down.fromMs, () => { this.#die() })
  }

  send ({ body }: Pick<UpstreamRequest, 'body'>, maySend: () => boolean): PromisedSending {
    const { promise, resolve } = Promise.withResolvers<UpstreamResult>()
    let [started, cancelled] = [false, false]
    this.#timeline.after(CONNECT_MS, () => {
      if (cancelled) return
      if (this.#isDown) return resolve({ kind: 'unsent', code: 'ECONNREFUSED' })
      if (!maySend()) return resolve({ kind: 'unsent', code: 'LEASE' })
      started = true
      this.#execute(messageIn(body), resolve)
    })
    const cancel = (code: string, timedOut: boolean): void => {
      cancelled = true
      resolve(started ? { kind: 'lost', code, timedOut, status: null } : { kind: 'unsent', code })
    }
    return { result: promise, cancel }
  }

  get #isDown (): boolean {
    const { down } = this.#plan
    return down !== undefined && this.#timeline.nowMs >= down.fromMs && this.#timeline.nowMs < down.untilMs
  }

  #execute (message: string, tell: (result: UpstreamResult) => void): void {
    const running = this.#running.get(message) ?? new Set()
    this.#running.set(message, running.add(tell))
    this.together.set(message, Math.max(running.size, this.together.get(message) ?? 0))
    this.#timeline.after(this.#plan.executesMs, () => {
      if (!running.delete(tell)) return
      const { mendedAtMs = 0 } = this.#plan
      if (this.#timeline.nowMs < mendedAtMs) return tell(answer(400, { error: 'the consumer has a fault' }))
      this.done.set(message, (this.done.get(message) ?? 0) + 1)
      tell(answer(200, { status: 'SUCCESS', message }))
    })
  }

  /** Nothing of it ends, and its sockets are reset. */
  #die (): void {
    for (const running of this.#running.values()) {
      for (const tell of Array.from(running)) tell({ kind: 'lost', code: 'ECONNRESET', timedOut: false, status: null })
      running.clear()
    }
  }
}

function answer (status: number, body: object): UpstreamResult {
  return { kind: 'answer', answer: { status, headers: TOLD, body: Buffer.from(JSON.stringify(body)) } }
}

/** identities.ts puts it into every body. */
export function messageIn (body: Buffer): string {
  const [message] = /message-\d+/.exec(body.toString()) ?? []
  if (message === undefined) throw new Error(`no message in ${body.toString()}`)
  return message
}
