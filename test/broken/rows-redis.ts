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
    test: ['gateway/redis-says.test.ts', 'FLUSHALL in mid-flight'],
    breaks: 'skip-claim'
  },
  {
    fault: 'Redis master killed or cut off; the sentinels promote its replica',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged; locks that were not handed on are lost',
    client: 'served by the database alone, then with the new master',
    test: ['store/redis-sentinel.test.ts', 'a master that is killed: its locks are lost or not'],
    breaks: 'first-master-forever',
    needs: ['redis sentinel']
  },
  {
    fault: 'a master of a Redis Cluster is gone, without a replica',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'records of its slots are served by the database alone, others as before',
    test: ['store/redis-cluster.test.ts', 'a master that is gone costs the records of its slots their Redis and no others'],
    breaks: 'one-master-is-all',
    needs: ['redis cluster']
  },
  {
    fault: 'slots of a Redis Cluster move',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'as before: what was not done at one node is asked of the other',
    test: ['store/redis-cluster.test.ts', 'in the middle of a move every record is found where it is'],
    breaks: 'moved-is-away',
    needs: ['redis cluster']
  },
  {
    fault: 'Redis refuses a user one of the rights that are needed',
    moment: 'any',
    seen: '≤ 1',
    record: 'unchanged',
    client: 'served by the database alone; the log says why, once',
    test: ['store/redis-tls.test.ts', 'without +eval: no Redis, said once'],
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
  }
]
