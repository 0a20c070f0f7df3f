/** A Redis that is out of the past, or another database's too: what is left when nobody looks. */
import type { Break } from './breaks.ts'

export const REDIS_PAST_BREAKS: readonly Break[] = [
  {
    name: 'memory-of-the-route',
    does: 'remembers an answer for the lease of its own route, whatever the lease of the row is',
    breaks: ['P10'],
    patches: [{
      file: 'gateway/claim/row-decision.ts',
      find: 'context.replayCache.keepRow(execution.keyed.name, row, answer,',
      replace: 'context.replayCache.keepRow(execution.keyed.name, { ...row, leaseMs: execution.keyed.claim.leaseMs }, answer,'
    }]
  },
  {
    name: 'generations-alike',
    does: 'believes a copy of whatever generation it is',
    breaks: ['P10'],
    patches: [{
      file: 'gateway/shared/generation.ts',
      find: "if (generation < this.#known) return 'outdated'",
      replace: "if (generation < this.#known) return 'believed'"
    }]
  },
  {
    name: 'generations-for-ever',
    does: 'believes a copy of the generation that it knew last, however long ago that was',
    breaks: ['P10'],
    patches: [{
      file: 'gateway/shared/generation.ts',
      find: "<= leaseMs * BELIEVED_SHARE ? 'believed'",
      replace: "<= leaseMs * BELIEVED_SHARE * 1_000 ? 'believed'"
    }]
  },
  {
    name: 'copied-ids',
    does: 'serves from a copy of a database under the id of the original',
    breaks: ['P2', 'I5'],
    patches: [{
      file: 'store/postgres/binding.ts',
      find: '  return database === here[1] && schema',
      replace: "  return (database !== '' || database === here[1]) && schema"
    }]
  },
  {
    name: 'beats-unread',
    does: 'takes whoever shows beats in its Redis for one of its own',
    breaks: ['P2', 'I5'],
    patches: [{
      file: 'store/redis/mirror.ts',
      find: 'others.filter(({ beat }, at) => beat > (known[at] ?? -1))',
      replace: 'others.filter(({ beat }, at) => beat < (known[at] ?? -1))'
    }]
  },
  {
    name: 'shown-and-begun',
    does: 'begins as soon as it has shown its beat, without a second look',
    breaks: ['P2', 'I5'],
    patches: [{ file: 'store/redis/mirror.ts', find: '    if (represented) this.#begin()\n', replace: '    this.#begin()\n' }]
  }
]
