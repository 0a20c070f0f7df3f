/**
 * What a load balancer does for its clients, seen from their side: it polls /readyz, sends to what has just said that it
 * is ready, in turn, and keeps its connections as long as the other side does. It never sends anything twice.
 */
import { Agent, request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { eventually } from '../harness/eventually.ts'

export interface Target {
  readonly url: string
  readonly adminUrl: string
}

export interface Ask {
  readonly key: string | null
  readonly body: string
  /** POST and {@link PATH}, unless it says otherwise. */
  readonly method?: string
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Past the balancing: to this one. */
  readonly to?: Target
}

export interface Answered {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: Buffer
  readonly from: Target
}

export interface BalancerOptions {
  readonly pollEveryMs: number
  /** Nothing is sent to who has not said within this time that it is ready: a poll that is late must not be believed. */
  readonly freshMs: number
}

/** A probe that takes longer counts as a no. */
const PROBE_MS_MAX = 1_000
const STARTS_WITHIN_MS = 30_000
const PATH = '/things'
/** What its clients ask for, whichever it sends them to: a request is the same at all of them. */
const HOST = 'api.example.com'

export class Balancer {
  readonly #targets: readonly Target[]
  readonly #options: BalancerOptions
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 256 })
  /** When the last probe that was answered with "ready" had been sent. */
  readonly #readyAtMs = new Map<Target, number>()
  /** How many that it was picked for have no answer yet. */
  readonly #underWay = new Map<Target, number>()
  readonly #polls: ReadonlyArray<Promise<void>>
  #next = 0
  #stopped = false

  constructor (targets: readonly Target[], options: BalancerOptions) {
    this.#targets = targets
    this.#options = options
    this.#polls = targets.map(async (target) => this.#poll(target))
  }

  /** Rejects as the connection does. */
  async ask ({ key, body, method = 'POST', path = PATH, headers = {}, to }: Ask): Promise<Answered> {
    const target = to ?? await this.#pick()
    const keyed = { Host: HOST, ...headers, ...key === null ? {} : { 'Idempotency-Key': key } }
    if (to === undefined) this.#count(target, 1)
    try {
      return { ...await exchange(this.#agent, target.url, { method, path, headers: keyed, body }), from: target }
    } finally {
      if (to === undefined) this.#count(target, -1)
    }
  }

  isReady (target: Target): boolean {
    return performance.now() - (this.#readyAtMs.get(target) ?? -Infinity) <= this.#options.freshMs
  }

  /** It is picked for nothing, and nothing that it was picked for is under way. */
  isIdle (target: Target): boolean {
    return !this.isReady(target) && (this.#underWay.get(target) ?? 0) === 0
  }

  async ready (target: Target): Promise<void> {
    await eventually(() => this.isReady(target), `${target.url} is ready`, STARTS_WITHIN_MS)
  }

  async stop (): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#polls)
    this.#agent.destroy()
  }

  #count (target: Target, change: number): void {
    this.#underWay.set(target, (this.#underWay.get(target) ?? 0) + change)
  }

  async #pick (): Promise<Target> {
    let picked: Target | undefined
    const look = (): boolean => {
      const ready = this.#targets.filter((target) => this.isReady(target))
      picked = ready[this.#next++ % Math.max(1, ready.length)]
      return picked !== undefined
    }
    if (!look()) await eventually(look, 'one of them is ready', STARTS_WITHIN_MS)
    return picked as Target
  }

  async #poll (target: Target): Promise<void> {
    while (!this.#stopped) {
      const sentAtMs = performance.now()
      try {
        const { status } = await exchange(this.#agent, target.adminUrl, {
          method: 'GET',
          path: '/readyz',
          headers: {},
          timeoutMs: PROBE_MS_MAX
        })
        if (status === 200) this.#readyAtMs.set(target, sentAtMs)
        else this.#readyAtMs.delete(target)
      } catch {
        this.#readyAtMs.delete(target)
      }
      await new Promise((resolve) => { setTimeout(resolve, this.#options.pollEveryMs) })
    }
  }
}

interface Exchange {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  readonly timeoutMs?: number
}

async function exchange (
  agent: Agent,
  base: string,
  { method, path, headers, body, timeoutMs }: Exchange
): Promise<Omit<Answered, 'from'>> {
  const { hostname, port } = new URL(base)
  return new Promise((resolve, reject) => {
    const signal = timeoutMs === undefined ? {} : { signal: AbortSignal.timeout(timeoutMs) }
    const request = httpRequest({ hostname, port, method, path, headers, agent, ...signal }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => { resolve({ status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }) })
    })
    request.on('error', reject)
    request.end(body)
  })
}
