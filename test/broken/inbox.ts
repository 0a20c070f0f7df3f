/** The inbox's worker without one of its rules. */
import type { Break } from './breaks.ts'

export const INBOX: readonly Break[] = [
  {
    name: 'deliver-unleased',
    does: 'delivers a message although its lease is over',
    breaks: ['E0'],
    patches: [{
      file: 'gateway/inbox/deliver.ts',
      find: '() => !context.drain.stopped && lease.believed(context.deps.clock) })',
      replace: '() => !context.drain.stopped || lease.broken })'
    }]
  },
  {
    name: 'names-heal',
    does: 'goes on under a name whose lease was over for a while',
    breaks: ['E0'],
    patches: [{
      file: 'gateway/inbox/worker-lease.ts',
      find: 'if (this.#granted !== null && this.#left(clock) <= 0) this.#broken = true',
      replace: 'if (this.#granted !== null && this.#left(clock) < -Infinity) this.#broken = true'
    }]
  },
  {
    name: 'recover-in-the-dark',
    does: 'takes back what workers have who had no chance yet to say that they live',
    breaks: ['E2b'],
    patches: [{
      file: 'background/deliverer.ts',
      find: 'if (!this.#works || !this.#gateway.workerLapseGuard.mayLapse()) return false',
      replace: 'if (!this.#works || RECOVER_MAX < 0) return false'
    }]
  },
  {
    name: 'held-in-silence',
    does: 'tells nobody which messages it holds because their workers died',
    breaks: ['trouble'],
    patches: [{ file: 'gateway/inbox/deliver.ts', find: 'tries } of held) {', replace: 'tries } of held.slice(count)) {' }]
  },
  {
    name: 'lost-takes-stay-lost',
    does: 'keeps alive the name under which a lost reply has handed out messages',
    breaks: ['P6'],
    patches: [{
      file: 'background/deliverer.ts',
      find: 'if (!tookNothing(error)) this.#leases.retire(lease)',
      replace: 'if (!tookNothing(error)) lease.believed(this.#gateway.deps.clock)'
    }]
  },
  {
    name: 'names-for-ever',
    does: 'takes messages under one name for as long as it lives',
    breaks: ['P6'],
    patches: [{
      file: 'gateway/inbox/worker-lease.ts',
      find: 'clock.monotonicMs() - this.#current.drawnAtMs >= WORKER_NAME_MS',
      replace: 'clock.monotonicMs() - this.#current.drawnAtMs >= Infinity'
    }]
  }
]
