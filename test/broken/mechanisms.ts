/**
 * One break per mechanism of the fault table (rows.ts, docs/internals/faults.md): what is left when it is taken out. Each row
 * names the test that must then fail.
 */
import type { Break } from './breaks.ts'

const CLAIMING = 'gateway/claim/claim.ts'

export const MECHANISMS: readonly Break[] = [
  {
    name: 'lock-without-end',
    does: 'locks in Redis for ever: what a dead process had locked stays locked',
    breaks: ['I8'],
    patches: [{
      file: CLAIMING,
      find: 'lockLane.lock(id, execution.lock, leaseMs, execution)',
      replace: 'lockLane.lock(id, execution.lock, leaseMs * 100_000, execution)'
    }]
  },
  {
    name: 'lost-claims-stay-lost',
    does: 'leaves a claim lost whose lock says that it was acknowledged',
    breaks: ['I1'],
    patches: [{
      file: 'gateway/claim/redis-decision.ts',
      find: 'if (row === null && lock.attempt !== undefined) context',
      replace: 'if (row === null && lock.attempt === -1) context'
    }]
  },
  {
    name: 'joiners-hear-the-past',
    does: 'tells those who have joined an execution what its settle was told, however long ago that was asked',
    breaks: ['P10'],
    patches: [{
      file: 'gateway/apart.ts',
      find: 'running.sinceSettleAskedMs(clock) >= ',
      replace: 'running.sinceSettleAskedMs(clock) >= 1_000_000 * '
    }]
  },
  {
    name: 'lapse-on-its-way',
    does: 'orders leases to lapse, however late the database receives the order',
    breaks: ['E2b', 'I2'],
    patches: [{ file: 'store/postgres/background.ts', find: 'nowSeconds + WITHIN_SECONDS\n', replace: 'nowSeconds + 3_600\n' }]
  },
  {
    name: 'leases-never-lapse',
    does: 'waits for the dead for ever',
    breaks: ['I9'],
    patches: [{
      file: 'core/protocol/transitions.ts',
      find: "return { do: row.lapsed && mayLapse ? 'lapse' : 'in-flight' }",
      replace: "return { do: row.lapsed && mayLapse ? 'in-flight' : 'in-flight' }"
    }]
  },
  {
    name: 'redis-errors-are-locks',
    does: 'takes an error of Redis for a lock of somebody else',
    breaks: ['P2'],
    patches: [{
      file: 'store/redis/locks.ts',
      find: '  if (found === undefined) return UNAVAILABLE\n',
      replace: "  if (found === undefined) return { kind: 'lock', lock: { ...lock, owner: Buffer.alloc(16) } }\n"
    }]
  },
  {
    name: 'first-master-forever',
    does: 'goes back to the master that the sentinels named first',
    breaks: ['P2'],
    patches: [{
      file: 'store/redis/sentinels.ts',
      find: '      return address\n',
      replace: '      return ((this as unknown as { first?: typeof address }).first ??= address)\n'
    }]
  },
  {
    name: 'one-master-is-all',
    does: 'gives up the whole cluster with one of its masters',
    breaks: ['P2'],
    patches: [{
      file: 'store/redis/cluster.ts',
      find: 'servers.some((server) => server.available())',
      replace: 'servers.every((server) => server.available())'
    }]
  },
  {
    name: 'moved-is-away',
    does: 'takes a record whose slot has moved for one without Redis',
    breaks: ['P2'],
    patches: [{
      file: 'store/redis/cluster.ts',
      find: 'if (server === undefined || hops > HOPS_MAX) return none',
      replace: 'if (server === undefined || hops > 0) return none'
    }]
  },
  {
    name: 'probe-without-rehearsal',
    does: 'takes a Redis that answers for one that serves',
    breaks: ['P2'],
    patches: [{ file: 'store/redis/server.ts', find: '      await this.#rehearse()\n', replace: '' }]
  },
  {
    name: 'dead-claims-freed',
    does: 'takes the claim of a dead process for unsent',
    breaks: ['I1', 'I10'],
    patches: [{
      file: 'core/protocol/transitions.ts',
      find: "return settledRow(\n    row,\n    { outcome: 'indeterminate', keepMs: row.unknownKeepMs",
      replace: "return settledRow(row, { outcome: 'released', keepMs: row.unknownKeepMs"
    }]
  },
  {
    name: 'redis-is-needed',
    does: 'serves nothing while Redis is away',
    breaks: ['P2'],
    patches: [
      {
        file: CLAIMING,
        find: "  if (lockResult.kind === 'lock' || lockResult.kind === 'unsettled') return 'lost'\n",
        replace: "  if (['lock', 'unsettled', 'unavailable'].includes(lockResult.kind)) return 'lost'\n"
      },
      {
        file: 'gateway/claim/redis-decision.ts',
        find: "    case 'mine':\n    case 'unavailable': return null\n",
        replace: "    case 'mine': return null\n    case 'unavailable': return { kind: 'unavailable', nothingKnows: false }\n"
      }
    ]
  },
  {
    name: 'forward-when-down',
    does: 'sends without a claim when the arbiter is away',
    breaks: ['P1'],
    patches: [{
      file: CLAIMING,
      find: "    return { decision: { kind: 'unavailable', nothingKnows }, lock: 'delete', row: null }\n",
      replace: '    execution.grant(readClocks(context.deps.clock))\n    return won(execution, 1)\n'
    }]
  },
  {
    name: 'settle-once',
    does: 'tries to settle once and forgets the answer when that fails',
    breaks: ['E6'],
    patches: [{
      file: 'gateway/settle/write.ts',
      find: "return context.drain.stopped ? { kind: 'abandoned' } : AGAIN",
      replace: "return context.drain.stopped ? AGAIN : { kind: 'abandoned' }"
    }]
  },
  {
    name: 'lapse-in-the-dark',
    does: 'takes leases that are over at once after an outage, from those who live',
    breaks: ['E2b', 'I2'],
    patches: [{
      file: 'gateway/shared/lapse-guard.ts',
      find: '    return this.hasContact() && now - (this.#contactSinceMs ?? now) >= this.#leaseMs\n',
      replace: '    return now >= 0\n'
    }]
  },
  {
    name: 'lost-settle-is-fenced',
    does: 'does not know its own outcome when the reply of its settle was lost',
    breaks: ['P7'],
    patches: [{
      file: 'gateway/settle/write.ts',
      find: '  if (mine && row.state === settlement.outcome',
      replace: '  if (!mine && row?.state === settlement.outcome'
    }]
  },
  {
    name: 'barges-in',
    does: 'ends the lease of a locked row in the moment in which it is let go of, before its owner who stands in line',
    breaks: ['E2', 'P8'],
    patches: [{ file: 'store/postgres/background.ts', find: "nobodyInLine('id')", replace: "'true'" }]
  },
  {
    name: 'nobody-stands-in-line',
    does: 'leaves a locked row to the next tick of the renewals',
    breaks: ['E2', 'P8'],
    patches: [{ file: 'store/postgres/records.ts', find: '    this.#line.join(', replace: '    void (' }]
  },
  {
    name: 'locked-workers-are-dead',
    does: 'takes what a worker has whose sign of life a locked row holds up',
    breaks: ['N2'],
    patches: [
      {
        file: 'store/postgres/inbox-workers.ts',
        find: "nobodyInLine('w.owner')}\n     for no key update of w skip locked\n",
        replace: "'true'}\n"
      }
    ]
  },
  {
    name: 'visible-is-durable',
    does: 'concludes from a row that it sees, whether a standby has it or not',
    breaks: ['P7', 'E5', 'I11', 'N1'],
    patches: [{
      file: 'store/postgres/durable.ts',
      find: '  if (mayBeLost) DOUBTFUL.add(shape)\n',
      replace: '  if (mayBeLost === null) DOUBTFUL.add(shape)\n'
    }]
  },
  {
    name: 'reads-are-contact',
    does: 'takes a database that can be read for one in which the living can renew',
    breaks: ['E2b', 'I2'],
    patches: [
      {
        file: 'gateway/shared/contact-tracking.ts',
        find: '      if (wrote(result)) for',
        replace: '      if (typeof wrote === \'function\') for'
      },
      {
        file: 'gateway/shared/contact-tracking.ts',
        find: 'beat: async (sign) => track(records.beat(sign), always)',
        replace: 'beat: async sign => records.beat(sign).then(async beaten => track(Promise.resolve(beaten)))'
      }
    ]
  },
  {
    name: 'silence-of-the-longest-lease',
    does: 'bears a silence of the database that is longer than a short lease',
    breaks: ['E2b', 'I2'],
    patches: [{
      file: 'gateway/gateway.ts',
      find: 'lapseGuardFor(deps.clock, this.arbiterClock, deps.longestLeaseMs, shortestLeaseMs)',
      replace: 'lapseGuardFor(deps.clock, this.arbiterClock, deps.longestLeaseMs)'
    }]
  },
  {
    name: 'renewals-wait',
    does: 'lets one locked row keep all other leases from being renewed',
    breaks: ['P8'],
    patches: [{ file: 'store/postgres/renewals.ts', find: 'for no key update of r skip locked', replace: 'for no key update of r' }]
  },
  {
    name: 'unsent-is-unknown',
    does: 'calls unknown what never left',
    breaks: ['E4'],
    patches: [{
      file: 'gateway/settle/plan.ts',
      find: "    settlement: settlementOf(execution, 'released', execution.keyed.route.idempotency.retentionMs),\n",
      replace: "    settlement: settlementOf(execution, 'indeterminate', execution.keyed.route.idempotency.retentionMs),\n"
    }]
  },
  {
    name: 'lost-is-released',
    does: 'frees the key when the upstream broke off',
    breaks: ['E4', 'I1', 'I10'],
    patches: [{
      file: 'gateway/settle/plan.ts',
      find: `settlement: {
      ...settlementOf(execution, 'indeterminate', execution.keyed.route.idempotency.unknownRetentionMs),
      status: storable(status),
      reason
    },`,
      replace: "settlement: { ...settlementOf(execution, 'released', execution.keyed.route.idempotency.unknownRetentionMs), status: storable(status) },"
    }]
  },
  {
    name: 'hops-are-kept',
    does: "keeps a proxy's 502 and 504 as the upstream's own answers",
    breaks: ['E4'],
    patches: [{
      file: 'core/protocol/disposition.ts',
      find: "if (answer.status === 502 || answer.status === 504) return 'unknown'\n",
      replace: "if (answer.status === 502 || answer.status === 504) return 'keep'\n"
    }]
  },
  {
    name: 'late-settles-refused',
    does: 'drops the true answer of an owner whose lease was taken for over',
    breaks: ['I7', 'E7'],
    patches: [{
      file: 'core/protocol/transitions.ts',
      find: "  'settle:completed':         ['·',      'settle',  'settle',  '·',       '·',       '·',       'settle',  'settle',",
      replace: "  'settle:completed':         ['·',      'settle',  'settle',  '·',       '·',       '·',       'settle',  '·',"
    }]
  },
  {
    name: 'past-is-taken-unlocked',
    does: 'takes a row whose retention is over without a second look at the locked row',
    breaks: ['P5', 'I7'],
    patches: [{ file: 'store/postgres/claims.ts', find: '   order by r.id\n     for no key update of r\n', replace: '   order by r.id\n' }]
  },
  {
    name: 'no-drain',
    does: 'ends without waiting for what it executes',
    breaks: ['I8'],
    patches: [{
      file: 'gateway/gateway.ts',
      find: 'while (!this.drain.stopped && this.workInFlight > 0 &&',
      replace: 'while (!this.drain.stopped && this.workInFlight > 1_000_000 &&'
    }]
  },
  {
    name: 'lost-rows-stay-lost',
    does: 'takes a row that vanished under an unsettled copy for a key that nobody used',
    breaks: ['I1', 'P7'],
    patches: [{
      file: 'gateway/execution/record-writes.ts',
      find: "  if (settled.kind === 'settled' || settled.row !== null) return settled\n",
      replace: '  if (settled.kind.length > 0) return settled\n'
    }]
  },
  {
    name: 'lost-claims-invite',
    does: 'lets its lock in Redis end when a failover has lost the row of what it executes',
    breaks: ['I1'],
    patches: [{
      file: 'store/shared/record-table.ts',
      find: "      if (before === null) return 'skipped'\n",
      replace: "      if (before === null) return 'lost'\n"
    }]
  },
  {
    name: 'warnings-are-fine',
    does: 'takes a commit that came with a warning for acknowledged',
    breaks: ['P6'],
    patches: [{
      file: 'store/postgres/connection.ts',
      find: 'return statement.writes && warnings.length > 0 ?',
      replace: 'return statement.writes && warnings.length > 1_000 ?'
    }]
  },
  {
    name: 'replicas-are-kept',
    does: 'keeps connections that lead to a replica',
    breaks: ['E2b'],
    patches: [{
      file: 'store/postgres/faults.ts',
      find: '!isInDoubt(error.code) &&\n    !isReplica(error.code) &&',
      replace: '!isInDoubt(error.code) && '
    }]
  },
  {
    name: 'free-stays-free',
    does: 'takes what was free in a backup for free',
    breaks: ['I1'],
    patches: [{
      file: 'store/sqlite/epoch.ts',
      find: "[outdate(connection, 'claimed', nowMs), outdate(connection, 'released', nowMs)]",
      replace: "[outdate(connection, 'claimed', nowMs), 0]"
    }]
  },
  {
    name: 'unsettled-without-bound',
    does: 'goes on claiming when the answers that wait for the store have filled their bound',
    breaks: ['E6'],
    patches: [{ file: 'gateway/way.ts', find: 'if (limits.unsettled.full) return', replace: 'if (false) return' }]
  }
]
