/**
 * Pauses that consumers ask for on behalf of one tenant (`inbox.retryAfter`). The store keeps them, for all processes. What waits of the
 * tenant is put off until the end of its pause, so that no take passes it over again and again.
 */
import type { Delivery } from '../core/inbox/message.ts'
import type { Deps } from '../gateway/shared/deps.ts'
import { errorText } from '../ports/errors.ts'

/** Messages of one statement. More would keep out others that want to write them. */
const AT_ONCE = 1_000

/** A reload replaces the dependencies. */
interface PausesContext { readonly deps: Pick<Deps, 'inbox' | 'clock' | 'log'> }

export class TenantPauses {
  readonly #context: PausesContext
  readonly #works: () => boolean
  /**
   * Tenants whose messages are being put off here, as hex. Several answers ask for nearly the same pause, and one of them does the work.
   */
  readonly #busy = new Set<string>()

  /** `works`: false while the process ends. */
  constructor (context: PausesContext, works: () => boolean) {
    this.#context = context
    this.#works = works
  }

  /** Never rejects. If the store cannot be told, the next answer of this kind tells it. */
  async begin ({ token, route, tenant }: Pick<Delivery, 'token' | 'route' | 'tenant'>, forMs: number): Promise<void> {
    if (tenant === null) return
    const { inbox, log } = this.#context.deps
    const about = { record: token.id.toString('base64url'), route }
    const name = tenant.toString('hex')
    const isFirst = !this.#busy.has(name)
    this.#busy.add(name)
    try {
      const first = await inbox.postpone(tenant, forMs, AT_ONCE)
      const count = isFirst && first === AT_ONCE ? first + await this.#putOffRest(tenant, forMs) : first
      if (count === 0) return
      log.info(
        { event: 'tenant-postponed', ...about, count, inMs: forMs },
        'the consumer asks for a pause: messages of the same tenant wait until it is over'
      )
    } catch (error) {
      log.warn(
        { event: 'tenant-not-postponed', ...about, error: errorText(error) },
        'the store was not told of a pause that the consumer asks for'
      )
    } finally {
      if (isFirst) this.#busy.delete(name)
    }
  }

  /** Until the end of this pause at most: what is not put off by then may go. */
  async #putOffRest (tenant: Buffer, forMs: number): Promise<number> {
    const { inbox, clock } = this.#context.deps
    const endsAtMs = clock.monotonicMs() + forMs
    let [count, last] = [0, AT_ONCE]
    while (last === AT_ONCE && this.#works() && clock.monotonicMs() < endsAtMs) {
      last = await inbox.postpone(tenant, 0, AT_ONCE)
      count += last
    }
    return count
  }
}
