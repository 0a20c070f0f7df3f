/**
 * Write combining. What arrives while a batch is in flight goes out with the next one. An idle lane sends at the end of the
 * event loop's tick, so combining costs no wait and needs no timer. A lane never mixes kinds of writes (P8): a settle in the
 * same transaction as a claim deadlocks with its mirror image on another gateway. It never runs two writes to one record at the
 * same time. Nothing here makes a promise or a closure for an item: the result goes to a reply that came with it. batcher.ts has
 * the form with promises.
 */
import { StoreOverloaded } from '../../ports/errors.ts'

export interface LaneLimits<Item> {
  /** For errors and metrics. */
  readonly name: string
  /**
   * The record's id as text that sorts like its bytes (hex, latin1), so that every gateway locks its rows in the same order.
   */
  readonly idOf: (item: Item) => string
  /** Most items in one batch. */
  readonly batchMax: number
  /** Most batches in flight at once. */
  readonly batchesMax: number
  /**
   * Milliseconds. A second batch in flight pays only if a batch takes longer than this, a third only if it takes twice as long,
   * and so on. Otherwise it halves the batches and doubles their number. Absent: always `batchesMax`.
   */
  readonly msPerParallelBatch?: number
  /** Items that wait, over all ids. At the bound an item gets StoreOverloaded: nothing was sent. */
  readonly queueMax: number
  /** Bytes in one batch, as `bytesOf` counts them. A larger item travels alone. */
  readonly batchBytesMax?: number
  readonly bytesOf?: (item: Item) => number
  /**
   * true: the failed batch was certainly undone. Its items are then tried one by one, so that one poisoned item fails alone.
   */
  readonly provenRolledBack: (error: unknown) => boolean
}

export interface LaneOptions<Item, Result, Reply> extends LaneLimits<Item> {
  /** One transaction. Calls one method of the batch, once, now or later. */
  readonly run: (batch: Batch<Item, Result, Reply>) => void
  /** Calls it at the end of the event loop's tick. Absent: setImmediate. Lanes that share a connection may share this. */
  readonly schedule?: (send: () => void) => void
  readonly succeed: (reply: Reply, result: Result) => void
  readonly fail: (reply: Reply, error: unknown) => void
}

interface Entry<Item, Reply> { readonly item: Item, readonly id: string, readonly reply: Reply }

interface Failure { readonly error: unknown }

/** What a batch needs of its lane. */
interface BatchOwner<Item, Result, Reply> extends Pick<LaneOptions<Item, Result, Reply>, 'name' | 'succeed' | 'fail'> {
  /** Before its replies. true: others take care of them. */
  readonly ended: (batch: Batch<Item, Result, Reply>, failure: Failure | null) => boolean
}

/** What goes out together. */
export class Batch<Item, Result, Reply> {
  readonly entries: ReadonlyArray<Entry<Item, Reply>>
  /** In the order of their ids. */
  readonly items: Item[]
  readonly sentAt = performance.now()
  readonly #owner: BatchOwner<Item, Result, Reply>

  constructor (entries: ReadonlyArray<Entry<Item, Reply>>, owner: BatchOwner<Item, Result, Reply>) {
    const items: Item[] = []
    for (const { item } of entries) items.push(item)
    this.entries = entries
    this.items = items
    this.#owner = owner
  }

  /** One result per item, in the order of the items. */
  succeed (results: readonly Result[]): void {
    const { entries } = this
    if (results.length !== entries.length) {
      this.fail(new Error(`${this.#owner.name}: ${results.length} results for ${entries.length} items`))
    } else if (!this.#owner.ended(this, null)) {
      let at = 0
      for (const { reply } of entries) guarded(this.#owner.succeed, reply, results[at++] as Result)
    }
  }

  /** The same without a list of results: each follows from its item. */
  succeedEach (resultOf: (item: Item) => Result): void {
    if (this.#owner.ended(this, null)) return
    for (const { item, reply } of this.entries) guarded(this.#owner.succeed, reply, resultOf(item))
  }

  /** If the error is no proven rollback, every item gets it and counts as in doubt. */
  fail (error: unknown): void {
    if (this.#owner.ended(this, { error })) return
    for (const { reply } of this.entries) guarded(this.#owner.fail, reply, error)
  }
}

/** A caller that throws must not keep the others of its batch from their results. */
function guarded<Reply, Value> (give: (reply: Reply, value: Value) => void, reply: Reply, value: Value): void {
  try {
    give(reply, value)
  } catch (error) {
    queueMicrotask(() => { throw error })
  }
}

/**
 * A batch in flight for this long waits for something else: a row's lock, or a dead connection. Others then go beside it, up to
 * `batchesMax`. A hundred times a fast commit.
 */
const STUCK_MS = 100

/** A slow batch counts after some dozens like it: then the disk has become slower, not this one commit. */
const FORGETTING = 1.1

export class Lane<Item, Result, Reply> {
  readonly #options: LaneOptions<Item, Result, Reply>
  readonly #owner: BatchOwner<Item, Result, Reply>
  /** Entries that may go out. Of every id at most one is here or in flight. */
  readonly #ready: Array<Entry<Item, Reply>> = []
  /** Key: an id that is ready or in flight. Value: entries of the same id that wait for it, oldest first. null: none. */
  readonly #behind = new Map<string, Array<Entry<Item, Reply>> | null>()
  #waiting = 0
  /** A handful at most. */
  readonly #underWay: Array<Batch<Item, Result, Reply>> = []
  #scheduled = false
  #unsticking: NodeJS.Timeout | null = null
  /** What a batch takes if nothing else delays it. */
  #fastestMs = 0
  readonly #sendReady = () => { this.#sendAll() }

  constructor (options: LaneOptions<Item, Result, Reply>) {
    const { name, succeed, fail } = options
    this.#options = options
    this.#owner = { name, succeed, fail, ended: (batch, failure) => this.#ended(batch, failure) }
  }

  /** Items that wait for a batch. */
  get waiting (): number {
    return this.#waiting
  }

  get idle (): boolean {
    return this.#waiting === 0 && this.#underWay.length === 0
  }

  /** No more items may wait. */
  get isFull (): boolean {
    return this.#waiting >= this.#options.queueMax
  }

  /**
   * The reply gets the item's own result, or StoreOverloaded (never sent), or the error of the batch. Never before this call has
   * returned.
   */
  enter (item: Item, reply: Reply): void {
    const { name, idOf, fail } = this.#options
    if (this.isFull) {
      setImmediate(() => { fail(reply, new StoreOverloaded(name)) })
      return
    }
    this.#enqueue({ item, id: idOf(item), reply })
    this.#schedule()
  }

  #enqueue (entry: Entry<Item, Reply>): void {
    this.#waiting++
    const behind = this.#behind.get(entry.id)
    if (behind === undefined) {
      this.#behind.set(entry.id, null)
      this.#ready.push(entry)
    } else if (behind === null) {
      this.#behind.set(entry.id, [entry])
    } else {
      behind.push(entry)
    }
  }

  /** At the end of the tick, so that everything this tick has read goes out together. */
  #schedule (): void {
    if (this.#scheduled) return
    if (!this.#hasRoom()) return this.#unstick()
    this.#scheduled = true
    const { schedule = setImmediate } = this.#options
    schedule(this.#sendReady)
  }

  #sendAll (): void {
    this.#scheduled = false
    while (this.#ready.length > 0 && this.#hasRoom()) this.#send(this.#nextBatch())
    if (this.#ready.length > 0) this.#unstick()
  }

  #hasRoom (): boolean {
    const { batchesMax, msPerParallelBatch } = this.#options
    const { length } = this.#underWay
    if (length === 0) return true
    if (length >= batchesMax) return false
    if (msPerParallelBatch === undefined) return true
    const parallel = Math.max(1, Math.ceil(this.#fastestMs / msPerParallelBatch))
    return length < parallel || length - this.#stuck() < parallel
  }

  #stuck (): number {
    const before = performance.now() - STUCK_MS
    let stuck = 0
    for (const { sentAt } of this.#underWay) if (sentAt < before) stuck++
    return stuck
  }

  /** Looks again at what waits behind slow batches, even if nothing else is pushed. */
  #unstick (): void {
    if (this.#unsticking !== null || this.#underWay.length >= this.#options.batchesMax) return
    this.#unsticking = setTimeout(() => {
      this.#unsticking = null
      if (this.#ready.length > 0) this.#schedule()
    }, STUCK_MS).unref()
  }

  /** The shortest batch lately. Longer ones waited for this process or for a lock, which more batches would not shorten. */
  #learn (tookMs: number): void {
    this.#fastestMs = this.#fastestMs === 0 ? tookMs : Math.min(tookMs, this.#fastestMs * FORGETTING)
  }

  #nextBatch (): Array<Entry<Item, Reply>> {
    const { batchMax, batchBytesMax = Infinity, bytesOf } = this.#options
    let size = 0
    let bytes = 0
    for (const entry of this.#ready) {
      bytes += bytesOf === undefined ? 0 : bytesOf(entry.item)
      if (size === batchMax || (size > 0 && bytes > batchBytesMax)) break
      size++
    }
    const batch = this.#ready.splice(0, size)
    this.#waiting -= size
    return batch.sort(byId)
  }

  #send (entries: Array<Entry<Item, Reply>>): void {
    const batch = new Batch(entries, this.#owner)
    this.#underWay.push(batch)
    this.#options.run(batch)
  }

  #ended (batch: Batch<Item, Result, Reply>, failure: Failure | null): boolean {
    if (failure !== null && batch.entries.length > 1 && this.#options.provenRolledBack(failure.error)) {
      void this.#runSingly(batch)
      return true
    }
    this.#leave(batch)
    return false
  }

  #leave (batch: Batch<Item, Result, Reply>): void {
    this.#underWay.splice(this.#underWay.indexOf(batch), 1)
    this.#learn(performance.now() - batch.sentAt)
    for (const { id } of batch.entries) this.#release(id)
    if (this.#ready.length > 0) this.#schedule()
  }

  /** Stops at the first failure that is no proven rollback. A store that went away is not asked once per item. */
  async #runSingly (batch: Batch<Item, Result, Reply>): Promise<void> {
    const { fail, provenRolledBack } = this.#options
    let gone: Failure | null = null
    for (const entry of batch.entries) {
      if (gone === null) {
        const failure = await this.#runAlone(entry)
        if (failure !== null && !provenRolledBack(failure.error)) gone = failure
      } else guarded(fail, entry.reply, gone.error)
    }
    this.#leave(batch)
  }

  #runAlone (entry: Entry<Item, Reply>): Promise<Failure | null> {
    return new Promise((resolve) => {
      this.#options.run(new Batch([entry], {
        ...this.#owner,
        ended: (_, failure) => {
          resolve(failure)
          return false
        }
      }))
    })
  }

  /** The oldest entry that waits behind this id becomes ready. */
  #release (id: string): void {
    const behind = this.#behind.get(id)
    const next = behind?.shift()
    if (next === undefined) this.#behind.delete(id)
    else this.#ready.push(next)
  }
}

function byId (a: { readonly id: string }, b: { readonly id: string }): number { return a.id < b.id ? -1 : 1 }
