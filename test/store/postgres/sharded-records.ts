/**
 * One record store of several complete databases: the record's id says which one, and nothing else is decided here. Each
 * database keeps its own lanes and connections, so what goes out together is grouped by database before it is a statement,
 * and every statement is the one that a single database gets. What docs/guides/scale.md says of sharding is tried on this.
 */
import type { ProbeNote } from '../../../src/core/probe/probe.ts'
import type { Claim, Row, Seen, Settlement, Token } from '../../../src/core/record/record.ts'
import type { Schemes } from '../../../src/core/record/schemes.ts'
import type {
  AuditEntry,
  Beaten,
  ClaimResult,
  DueProbe,
  Lapsed,
  LapseOrder,
  LostQuestion,
  OperatorResult,
  ProbeOrder,
  RecordFilter,
  RecordStore,
  RenewResult,
  Resolution,
  SettleResult,
  SignOfLife,
  Swept,
  TakeResult
} from '../../../src/ports/records.ts'
import type { Unresolved } from '../../../src/ports/telemetry.ts'

/** An id is a SHA-256: its first four bytes are spread as evenly as any. */
export function shardOf (id: Buffer, count: number): number {
  return id.readUInt32BE(0) % count
}

export class ShardedRecords implements RecordStore {
  readonly name = 'postgres'
  readonly #shards: readonly RecordStore[]
  /** Where the next round of lapsing or sweeping begins, so that a backlog in one place does not keep the others waiting. */
  #next = 0

  constructor (shards: readonly RecordStore[]) {
    this.#shards = shards
  }

  /** The first one's names them all: Redis keys need one name, not one for each. */
  get installation (): string { return this.#first.installation }

  insert (claim: Claim): Promise<ClaimResult> { return this.#of(claim.id).insert(claim) }
  take (seen: Seen, claim: Claim, mayRetry: boolean): Promise<TakeResult> { return this.#of(claim.id).take(seen, claim, mayRetry) }
  confirm (claim: Claim): Promise<ClaimResult> { return this.#of(claim.id).confirm(claim) }
  look (id: Buffer): Promise<Row | null> { return this.#of(id).look(id) }
  /** Of all alike: what an earlier id stands for is in another database than the id, and no claim can test that. */
  schemes (): Promise<Schemes> { return this.#first.schemes() }

  async lostAlgorithms (lost: number, route: string): Promise<number[]> {
    return (await Promise.all(this.#shards.map(async (shard) => shard.lostAlgorithms(lost, route)))).flat()
  }

  async mayBeLost (question: LostQuestion): Promise<boolean> {
    return (await Promise.all(this.#shards.map(async (shard) => shard.mayBeLost(question)))).includes(true)
  }

  async endEarlierScheme (): Promise<void> { await Promise.all(this.#shards.map(async (shard) => shard.endEarlierScheme())) }
  settle (settlement: Settlement): Promise<SettleResult> { return this.#of(settlement.token.id).settle(settlement) }

  settleLost (settlement: Settlement, claim: Claim, ageMs: number): Promise<SettleResult> {
    return this.#of(claim.id).settleLost(settlement, claim, ageMs)
  }

  resolve (resolution: Resolution): Promise<OperatorResult> { return this.#of(resolution.token.id).resolve(resolution) }
  expire (token: Token, audit: AuditEntry): Promise<OperatorResult> { return this.#of(token.id).expire(token, audit) }
  noteProbe (note: ProbeNote): Promise<boolean> { return this.#of(note.token.id).noteProbe(note) }

  /** A database that is away leaves its own tokens unrenewed, and nobody else's. */
  async renew (tokens: readonly Token[]): Promise<RenewResult[]> {
    const results = new Map<Token, RenewResult>()
    await Promise.all(this.#shards.map(async (shard, at) => {
      const own = tokens.filter(({ id }) => this.#indexOf(id) === at)
      if (own.length === 0) return
      const renewed = await shard.renew(own).catch(() => own.map((): RenewResult => 'skipped'))
      own.forEach((token, index) => results.set(token, renewed[index] ?? 'skipped'))
    }))
    return tokens.map((token) => results.get(token) ?? 'skipped')
  }

  async lapse ({ ids, running, limit, still }: LapseOrder): Promise<Lapsed[]> {
    const lapsed: Lapsed[] = []
    for (const at of this.#round()) {
      const own = ids?.filter((id) => this.#indexOf(id) === at) ?? null
      if (own?.length === 0 || lapsed.length >= limit) continue
      lapsed.push(...await this.#at(at).lapse({ ids: own, running, limit: limit - lapsed.length, still }))
    }
    return lapsed
  }

  /** Longest due first within each database. */
  async takeProbes (order: ProbeOrder): Promise<DueProbe[]> {
    const due: DueProbe[] = []
    for (const at of this.#round()) {
      if (due.length < order.limit) due.push(...await this.#at(at).takeProbes({ ...order, limit: order.limit - due.length }))
    }
    return due
  }

  async sweep (limit: number): Promise<Swept[]> {
    const all: Swept[] = []
    let left = limit
    for (const at of this.#round()) {
      if (left < 1) break
      const swept = await this.#at(at).sweep(left)
      left -= swept.reduce((sum, { count }) => sum + count, 0)
      all.push(...swept)
    }
    return all
  }

  async unresolved (): Promise<Unresolved> {
    const all = await Promise.all(this.#shards.map((shard) => shard.unresolved()))
    const ages = all.map(({ oldestMs }) => oldestMs).filter((ms) => ms !== null)
    return { count: all.reduce((sum, { count }) => sum + count, 0), oldestMs: ages.length === 0 ? null : Math.max(...ages) }
  }

  async list (filter: RecordFilter) {
    const lists = await Promise.all(this.#shards.map((shard) => shard.list(filter)))
    return lists.flat().sort((a, b) => b.claimedAtMs - a.claimedAtMs).slice(0, filter.limit)
  }

  async beat (sign: SignOfLife): Promise<Beaten> {
    const all = await Promise.all(this.#shards.map(async (shard) => shard.beat(sign)))
    const [first] = all
    if (first === undefined) throw new Error('there is no database')
    // Another one in any of them is another one of the whole.
    return { ...first, generation: all.reduce((sum, { generation }) => sum + generation, 0) }
  }

  async close (): Promise<void> { await Promise.all(this.#shards.map((shard) => shard.close())) }

  #of (id: Buffer): RecordStore { return this.#at(this.#indexOf(id)) }
  #indexOf (id: Buffer): number { return shardOf(id, this.#shards.length) }

  get #first (): RecordStore { return this.#at(0) }

  #at (index: number): RecordStore {
    const shard = this.#shards[index]
    if (shard === undefined) throw new Error(`there is no database ${index}`)
    return shard
  }

  #round (): number[] {
    const from = this.#next++
    return this.#shards.map((_, at) => (from + at) % this.#shards.length)
  }
}
