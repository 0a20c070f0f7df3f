/**
 * What stories are told with. A story leaves a record, a message or a mark in one state, under one release; its tale goes on
 * under the next ones: what must still hold whoever is asked, and what happens when there is another release.
 */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { eventually } from '../harness/eventually.ts'
import type { Behaviour } from '../harness/witness.ts'
import type { Answered, Ask } from '../e2e/balancer.ts'
import { UPSTREAM_TIMEOUT_MS } from './config.ts'
import { codeOf, printOf, saidBy } from './world.ts'
import type { Seat, World } from './world.ts'

export interface Tale {
  readonly name: string
  /** Holds at any gateway and changes nothing, as long as it is not `null`. */
  still: ((to?: Seat) => Promise<void>) | null
  /** Once, when every gateway is of another release than the one under which it began. */
  readonly next?: () => Promise<void>
  /** Once, when everything is over. */
  readonly end?: () => Promise<void>
}

/** `isFirst`: told under the first release of the play. */
export type Story = (world: World, isFirst: boolean) => Promise<Tale>

/** A dead process's worker is missed after 15 s, its lease and its mark sooner. */
export const SOON_MS = 25_000
/**
 * Refusals leave a route one delivery at a time (core/inbox/pacing.ts). Where that one is never answered, the next message waits for its
 * timeout.
 */
export const DELIVERY_REACHES_MS = UPSTREAM_TIMEOUT_MS + 5_000

/** One key, and everything that is asked with it. */
export class Key {
  readonly key = randomUUID()
  readonly #world: World
  readonly #ask: Ask
  #answer: Answered | null = null

  constructor (world: World, route: string, fields: Readonly<Record<string, string>> = {}) {
    this.#world = world
    this.#ask = { key: this.key, body: this.key, path: `/${route}/things`, headers: { 'Content-Type': 'text/plain', ...fields } }
  }

  answeredBy (behaviour: Behaviour): this {
    this.#world.book.manners.set(this.key, behaviour)
    return this
  }

  async ask (to?: Seat, more: Partial<Ask> = {}): Promise<Answered> {
    const answer = await this.#world.ask({ ...this.#ask, ...more, ...to === undefined ? {} : { to } })
    this.#answer = answer
    return answer
  }

  get attempts (): number[] {
    return this.#world.book.of(this.key).map(({ attempt }) => attempt)
  }

  get record (): string {
    return this.#world.book.of(this.key)[0]?.record ?? ''
  }

  async reached (withinMs?: number): Promise<void> {
    await eventually(
      () => this.attempts.length > 0 || this.#answer?.status === 503,
      () => `the upstream should have what was asked of ${this.#ask.path}, answered with ${this.#answer === null ? 'nothing yet' : saidBy(this.#answer)}`,
      withinMs
    )
    // A gateway that refuses it is the finding, and not that it never came.
    if (this.attempts.length === 0 && this.#answer?.status === 503) throw new Error(saidBy(this.#answer))
  }

  assertSent (...attempts: readonly number[]): void {
    assert.deepEqual(this.attempts, attempts, 'what the upstream was sent')
  }
}

export function assertStatus (answer: Answered, status: number, idempotency: string): void {
  assert.equal(`${answer.status} ${String(answer.headers['idempotency-status'])}`, `${status} ${idempotency}`, saidBy(answer))
}

export function assertProblem (answer: Answered, status: number, code: string): void {
  assert.equal(`${answer.status} ${codeOf(answer)}`, `${status} ${code}`, saidBy(answer))
}

/** The same answer as the first one, byte for byte, and said to be a replay. */
export function assertReplay (answer: Answered, first: Answered): void {
  assert.equal(answer.headers['idempotent-replayed'], 'true', saidBy(answer))
  assert.equal(printOf(answer), printOf(first), 'a replay that differs')
}
