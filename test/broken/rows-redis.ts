/** The rows of rows.ts that are about Redis. */
import type { FaultRow } from './rows.ts'

export const REDIS_ROWS: readonly FaultRow[] = [
  {
    fault: 'Redis down, stalled, cut off',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'served by the database alone',
    test: ['e2e/stores-lost.test.ts', 'Redis killed: everything goes on'],
    breaks: 'redis-is-needed'
  },
  {
    fault: 'Redis flushed, restarted empty, evicting, failed over',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'in flight, or a replay, from the row',
    test: ['gateway/claim/redis-says.test.ts', 'FLUSHALL in mid-flight'],
    breaks: 'skip-claim'
  },
  {
    fault: 'Redis master killed or cut off; the sentinels promote its replica',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged; locks that were not handed on are lost',
    client: 'served by the database alone, then with the new master',
    test: ['store/redis/sentinel.test.ts', 'a master that is killed: its locks are lost or not'],
    breaks: 'first-master-forever',
    needs: ['redis sentinel']
  },
  {
    fault: 'a master of a Redis Cluster is gone, without a replica',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'records of its slots are served by the database alone, others as before',
    test: ['store/redis/cluster.test.ts', 'a master that is gone costs the records of its slots their Redis and no others'],
    breaks: 'one-master-is-all',
    needs: ['redis cluster']
  },
  {
    fault: 'slots of a Redis Cluster move',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'as before: what was not done at one node is asked of the other',
    test: ['store/redis/cluster.test.ts', 'in the middle of a move every record is found where it is'],
    breaks: 'moved-is-away',
    needs: ['redis cluster']
  },
  {
    fault: 'Redis refuses a user one of the rights that are needed',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'served by the database alone; the log says why, once',
    test: ['store/redis/tls.test.ts', 'without +eval: no Redis, said once'],
    breaks: 'probe-without-rehearsal',
    needs: ['redis tls']
  },
  {
    fault: 'Redis read-only or out of memory',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'served by the database alone',
    test: ['e2e/stores-lost.test.ts', 'Redis full: everything goes on by the database alone'],
    breaks: 'redis-errors-are-locks'
  },
  {
    fault: 'Redis comes back from a snapshot',
    moment: 'an operator has deleted the record since',
    seen: '1 of the new life',
    record: 'of the new life; the old copy is cleared',
    client: 'the new answer',
    test: ['gateway/claim/generation.test.ts', 'a copy of before a delete is not replayed, and does not stand in front of the new life'],
    breaks: 'generations-alike'
  },
  {
    fault: 'Redis comes back from a snapshot',
    moment: 'an operator has deleted the record since; a gateway has had no sign from the database meanwhile',
    seen: '1 of the new life',
    record: 'of the new life',
    client: 'what the database says; the old answer only while it cannot be asked',
    test: ['gateway/claim/generation.test.ts', 'a gateway whose last sign of life is too old asks the database'],
    breaks: 'generations-for-ever'
  },
  {
    fault: 'the lease of a route is changed while gateways roll',
    moment: 'an operator deletes a record of before',
    seen: '1 of the new life',
    record: 'of the new life',
    client: 'the new answer, at every gateway',
    test: ['gateway/claim/generation.test.ts', 'what a gateway remembers of the row lives for the lease of the row'],
    breaks: 'memory-of-the-route'
  },
  {
    fault: 'a copy of the database shares its Redis',
    moment: 'a dump, or another name on the same server',
    seen: '≤ 1 by each',
    record: 'its own; the copy has drawn an installation id of its own',
    client: 'its own answers',
    test: ['store/postgres/binding.test.ts', 'a copy under another name draws an id of its own'],
    breaks: 'copied-ids'
  },
  {
    fault: 'a copy of the database shares its Redis',
    moment: 'a snapshot of the whole server, with all its names',
    seen: '≤ 1 by each',
    record: 'its own',
    client: 'its own answers; the copy is served by its database alone, and its log says why',
    test: ['store/redis/mirror.test.ts', 'the gateway of a copy stays out, shows nothing, and says so when it is certain'],
    breaks: 'beats-unread'
  },
  {
    fault: 'a copy of the database shares its Redis',
    moment: 'both begin in the same moment',
    seen: '≤ 1 by each',
    record: 'its own',
    client: 'its own answers; one of the two at most uses Redis',
    test: ['store/redis/mirror.test.ts', 'of two that begin in the same moment at most one does'],
    breaks: 'shown-and-begun'
  }
]
