/**
 * A store whose writes are recorded where they happen, below all injected faults. So the history has the contents of the rows, not what
 * a gateway believes. Changes nothing.
 */
import { decodeHeaders } from '../../src/core/protocol/codec.ts'
import type { Claim, Settlement } from '../../src/core/record/record.ts'
import type { Lapsed, RecordStore, SettleResult } from '../../src/ports/records.ts'
import { printOf } from '../harness/history.ts'
import type { HistoryEvent } from '../harness/history.ts'

/**
 * `owners`: the last owner of each record. It outlives the closing of the store. `settled`: records that were settled since their
 * claim. A claim under the same owner is then a new one.
 */
export function watched (
  records: RecordStore,
  owners: Map<string, Claim>,
  note: (event: HistoryEvent) => void,
  nowMs: () => number,
  settled = new Set<string>()
): RecordStore {
  const noteClaim = (claim: Claim, attempt: number): void => {
    const record = nameOf(claim.id)
    const known = owners.get(record)
    owners.set(record, claim)
    if (settled.delete(record) || known?.owner.equals(claim.owner) !== true) {
      note({ kind: 'claimed', atMs: nowMs(), record, owner: nameOf(claim.owner), attempt })
    }
  }
  const noteSettle = (settlement: Settlement, result: SettleResult): void => {
    const { token, outcome } = settlement
    if (result.kind !== 'settled') return
    settled.add(nameOf(token.id))
    note({
      kind: 'settled',
      atMs: nowMs(),
      record: nameOf(token.id),
      owner: nameOf(token.owner),
      attempt: token.attempt,
      outcome,
      by: 'owner',
      keepMs: result.keepLeftMs,
      print: printOfSettled(settlement)
    })
  }
  return {
    ...passing(records),
    insert: async (claim) => {
      const result = await records.insert(claim)
      if (result.kind === 'won') noteClaim(claim, result.attempt)
      return result
    },
    take: async (seen, claim, mayRetry) => {
      const result = await records.take(seen, claim, mayRetry)
      if (result.kind === 'won') noteClaim(claim, result.attempt)
      return result
    },
    confirm: async (claim) => {
      const result = await records.confirm(claim)
      if (result.kind === 'won') noteClaim(claim, result.attempt)
      return result
    },
    settle: async (settlement) => {
      const result = await records.settle(settlement)
      noteSettle(settlement, result)
      return result
    },
    settleLost: async (settlement, claim, ageMs) => {
      const result = await records.settleLost(settlement, claim, ageMs)
      noteSettle(settlement, result)
      return result
    },
    // Only probes come this way. An operator of a simulation records its own changes.
    resolve: async (resolution) => {
      const result = await records.resolve(resolution)
      if (result.kind !== 'done') return result
      const { token, outcome, keepMs, by } = resolution
      settled.add(nameOf(token.id))
      note({
        kind: 'settled',
        atMs: nowMs(),
        record: nameOf(token.id),
        owner: nameOf(token.owner),
        attempt: token.attempt,
        outcome,
        by,
        keepMs,
        print: printOfSettled(resolution)
      })
      return result
    },
    lapse: async (order) => {
      const lapsed = await records.lapse(order)
      for (const each of lapsed) {
        settled.add(nameOf(each.id))
        note(lapseOf(each, nowMs(), owners.get(nameOf(each.id))))
      }
      return lapsed
    }
  }
}

/** The write of a lapse. `claim`: the lapsed claim, if it is known. */
export function lapseOf ({ id, attempt }: Lapsed, atMs: number, claim?: Claim): HistoryEvent {
  const owner = claim === undefined ? 'unknown' : nameOf(claim.owner)
  return {
    kind: 'settled',
    atMs,
    record: nameOf(id),
    owner,
    attempt,
    outcome: 'indeterminate',
    by: 'lease',
    keepMs: claim?.unknownKeepMs ?? 0,
    print: null
  }
}

/** Every method of the port as it is, to be replaced one by one. */
export function passing (records: RecordStore): RecordStore {
  return {
    name: records.name,
    installation: records.installation,
    insert: (claim) => records.insert(claim),
    take: (seen, claim, mayRetry) => records.take(seen, claim, mayRetry),
    confirm: (claim) => records.confirm(claim),
    look: (id) => records.look(id),
    schemes: () => records.schemes(),
    lostAlgorithms: (lost, route) => records.lostAlgorithms(lost, route),
    mayBeLost: (question) => records.mayBeLost(question),
    endEarlierScheme: () => records.endEarlierScheme(),
    renew: (tokens) => records.renew(tokens),
    settle: (settlement) => records.settle(settlement),
    settleLost: (settlement, claim, ageMs) => records.settleLost(settlement, claim, ageMs),
    lapse: (order) => records.lapse(order),
    sweep: (limit) => records.sweep(limit),
    takeProbes: (order) => records.takeProbes(order),
    noteProbe: (note) => records.noteProbe(note),
    unresolved: () => records.unresolved(),
    list: (filter) => records.list(filter),
    resolve: (resolution) => records.resolve(resolution),
    expire: (token, audit) => records.expire(token, audit),
    beat: (sign) => records.beat(sign),
    close: () => records.close()
  }
}

export function printOfSettled ({ status, headers, body }: Pick<Settlement, 'status' | 'headers' | 'body'>): string | null {
  const decoded = headers === null ? null : decodeHeaders(headers)
  return status === null || decoded === null || body === null ? null : printOf(status, decoded, body)
}

export function nameOf (bytes: Buffer): string {
  return bytes.toString('base64url')
}
