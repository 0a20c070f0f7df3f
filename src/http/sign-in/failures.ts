/**
 * Limits of failed sign-ins, by @fastify/rate-limit: of one address, and of all. Only failures count. Sessions and right random tokens are
 * not affected, so nobody who has one can be locked out. The library remembers the 5000 latest addresses. For more, the limit of all is
 * there.
 */
import rateLimit from '@fastify/rate-limit'
import type { FastifyInstance, FastifyRequest } from 'fastify'

/** A person who mistypes a token needs fewer. Ten guesses a minute never find a random token. */
const OF_ONE_MAX = 10
/** One address gets no further than its own limit, so ten of them are needed to fill this. */
const OF_ALL_MAX = 100
const WINDOW_MS = 60_000

export const BLOCKED = 'Too many failed sign-ins. Wait a minute.'

type Limiter = ReturnType<FastifyInstance['createRateLimit']>

export class Failures {
  readonly #limiters: readonly [ofOne: Limiter, ofAll: Limiter]

  private constructor (limiters: readonly [ofOne: Limiter, ofAll: Limiter]) {
    this.#limiters = limiters
  }

  /** `addressOf`: whose attempt it is. */
  static async create (fastify: FastifyInstance, addressOf: (request: FastifyRequest) => string): Promise<Failures> {
    if (!fastify.hasDecorator('createRateLimit')) await fastify.register(rateLimit, { global: false })
    const limiter = (max: number, keyGenerator: (request: FastifyRequest) => string): Limiter =>
      fastify.createRateLimit({ max, timeWindow: WINDOW_MS, keyGenerator })
    return new Failures([limiter(OF_ONE_MAX, addressOf), limiter(OF_ALL_MAX, () => 'all')])
  }

  /** Seconds until the next attempt is allowed. null: now. */
  async blockedFor (request: FastifyRequest): Promise<number | null> {
    for (const limiter of this.#limiters) {
      const state = await limiter(request, { increment: false })
      if (!state.isAllowed && state.remaining === 0) return Math.max(1, state.ttlInSeconds)
    }
    return null
  }

  async note (request: FastifyRequest): Promise<void> {
    for (const limiter of this.#limiters) await limiter(request)
  }
}
