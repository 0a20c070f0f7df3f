/**
 * Clients that go on asking while something is done to the gateways: new keys, duplicates at once and later, requests
 * without a key. They retry nothing: whatever is not the upstream's answer is written down as failed.
 */
import { randomUUID } from 'node:crypto'
import type { Answered, Ask, Balancer } from './balancer.ts'

export interface Failure {
  readonly what: string
  readonly key: string | null
  readonly said: string
}

/** Between two requests of one client: a load of some hundred requests a second, far from what two cores can do. */
const PAUSE_MS = 40
/** Of ten turns: one asks twice at once, two ask an old key again, two carry no key, five are new. */
const TURNS = 10

export class SteadyLoad {
  readonly failures: Failure[] = []
  /** What each key was answered first. */
  readonly answers = new Map<string, Buffer>()
  /** Bodies of requests that carried no key. */
  readonly keyless: string[] = []
  requests = 0
  readonly #balancer: Pick<Balancer, 'ask'>
  readonly #clients: ReadonlyArray<Promise<void>>
  #stopped = false

  constructor (balancer: Pick<Balancer, 'ask'>, clients: number) {
    this.#balancer = balancer
    this.#clients = Array.from({ length: clients }, async (_, client) => this.#client(client))
  }

  async stop (): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#clients)
  }

  /** The key that was answered first, once more. */
  async oldest (): Promise<void> {
    const [key] = this.answers.keys()
    if (key !== undefined) await this.keyed('a retry', key)
  }

  async #client (client: number): Promise<void> {
    for (let turn = client; !this.#stopped; turn++) {
      await this.#turn(turn % TURNS)
      await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS) })
    }
  }

  async #turn (turn: number): Promise<void> {
    if (turn === 0) await this.twice(randomUUID())
    else if (turn <= 2) await this.#again()
    else if (turn <= 4) await this.withoutKey()
    else await this.keyed('a new key', randomUUID())
  }

  /** Two clients, or an impatient one: whoever comes second waits for the first. */
  async twice (key: string): Promise<void> {
    await Promise.all([this.keyed('a duplicate at once', key), this.keyed('a duplicate at once', key)])
  }

  async #again (): Promise<void> {
    const keys = Array.from(this.answers.keys())
    const key = keys[Math.floor(Math.random() * keys.length)]
    if (key !== undefined) await this.keyed('a retry', key)
  }

  async keyed (what: string, key: string, more: Partial<Ask> = {}): Promise<void> {
    const answer = await this.#ask(what, { ...more, key, body: key })
    if (answer === null) return
    const first = this.answers.get(key)
    if (first === undefined) this.answers.set(key, answer.body)
    else if (!first.equals(answer.body)) this.#fail(what, key, `another answer than before: ${answer.body.toString()}`)
  }

  async withoutKey (more: Partial<Ask> = {}): Promise<void> {
    const body = randomUUID()
    this.keyless.push(body)
    await this.#ask('no key', { ...more, key: null, body })
  }

  async #ask (what: string, ask: Ask): Promise<Answered | null> {
    this.requests++
    try {
      const answer = await this.#balancer.ask(ask)
      if (answer.status === 201) return answer
      this.#fail(what, ask.key, `${answer.status} ${answer.body.toString()}`)
    } catch (error) {
      this.#fail(what, ask.key, error instanceof Error ? error.message : String(error))
    }
    return null
  }

  #fail (what: string, key: string | null, said: string): void {
    this.failures.push({ what, key, said })
  }
}
