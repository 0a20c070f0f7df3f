/**
 * Write combining. What arrives while a batch is in flight goes out with the next one. An idle batcher sends at the end of the
 * event loop's tick, so combining costs no wait and needs no timer. A batcher never mixes kinds of writes (P8): a settle in the
 * same transaction as a claim deadlocks with its mirror image on another gateway. It never runs two writes to one record at the
 * same time.
 */
import { UnorderedList } from '../../unordered-list.ts'
import { StoreOverloaded } from '../../ports/errors.ts'

export interface BatcherOptions<Item, Result> {
  /** For errors and metrics. */
  readonly name: string
  /** One transaction. Resolves with one result per item, in the order of the items. Rejects as a whole. */
  readonly run: (items: Item[]) => Promise<Result[]>
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
  /** Items that wait, over all ids. At the bound push rejects with StoreOverloaded: nothing was sent. */
  readonly queueMax: number
  /** Bytes in one batch, as `bytesOf` counts them. A larger item travels alone. */
  readonly batchBytesMax?: number
  readonly bytesOf?: (item: Item) => number
  /**
   * true: the failed batch was certainly undone. Its items are then tried one by one, so that one poisoned item fails alone.
   */
  readonly provenRolledBack: (error: unknown) => boolean
}

interface Entry<Item, Result> {
  readonly item: Item
  readonly id: string
  readonly resolve: (result: Result) => void
  readonly reject: (error: unknown) => void
}

/**
 * A batch in flight for this long waits for something else: a row's lock, or a dead connection. Others then go beside it, up to
 * `batchesMax`. A hundred times a fast commit.
 */
const STUCK_MS = 100

/** A slow batch counts after some dozens like it: then the disk has become slower, not this one commit. */
const FORGETTING = 1.1

export class Batcher<Item, Result> {
  readonly #options: BatcherOptions<Item, Result>
  /** Entries that may go out. Of every id at most one is here or in flight. */
  readonly #ready: Array<Entry<Item, Result>> = []
  /** Key: an id that is ready or in flight. Value: entries of the same id that wait for it, oldest first. null: none. */
  readonly #behind = new Map<string, Array<Entry<Item, Result>> | null>()
  #waiting = 0
  /** When each batch in flight was sent. */
  readonly #underWay = new UnorderedList<number>()
  #scheduled = false
  #unsticking: NodeJS.Timeout | null = null
  /** What a batch takes if nothing else delays it. */
  #fastestMs = 0

  constructor (options: BatcherOptions<Item, Result>) {
    this.#options = options
  }

  /** Items that wait for a batch. */
  get waiting (): number {
    return this.#waiting
  }

  get idle (): boolean {
    return this.#waiting === 0 && this.#underWay.size === 0
  }

  /**
   * Resolves with the item's own result. Rejects with StoreOverloaded (never sent), or with the error of `run`. If that error
   * is no proven rollback, every item of the batch gets it and counts as in doubt.
   */
  push (item: Item): Promise<Result> {
    if (this.#waiting >= this.#options.queueMax) return Promise.reject(new StoreOverloaded(this.#options.name))
    return new Promise((resolve, reject) => {
      this.#enqueue({ item, id: this.#options.idOf(item), resolve, reject })
      this.#schedule()
    })
  }

  #enqueue (entry: Entry<Item, Result>): void {
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
    setImmediate(() => {
      this.#scheduled = false
      while (this.#ready.length > 0 && this.#hasRoom()) this.#send(this.#nextBatch())
      if (this.#ready.length > 0) this.#unstick()
    })
  }

  #hasRoom (): boolean {
    const { batchesMax, msPerParallelBatch } = this.#options
    const { size } = this.#underWay
    if (size === 0) return true
    if (size >= batchesMax) return false
    if (msPerParallelBatch === undefined) return true
    const parallel = Math.max(1, Math.ceil(this.#fastestMs / msPerParallelBatch))
    return size < parallel || size - this.#stuck() < parallel
  }

  #stuck (): number {
    const before = performance.now() - STUCK_MS
    return this.#underWay.all().filter((sentAt) => sentAt < before).length
  }

  /** Looks again at what waits behind slow batches, even if nothing else is pushed. */
  #unstick (): void {
    if (this.#unsticking !== null || this.#underWay.size >= this.#options.batchesMax) return
    this.#unsticking = setTimeout(() => {
      this.#unsticking = null
      if (this.#ready.length > 0) this.#schedule()
    }, STUCK_MS).unref()
  }

  /** The shortest batch lately. Longer ones waited for this process or for a lock, which more batches would not shorten. */
  #learn (tookMs: number): void {
    this.#fastestMs = this.#fastestMs === 0 ? tookMs : Math.min(tookMs, this.#fastestMs * FORGETTING)
  }

  #nextBatch (): Array<Entry<Item, Result>> {
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
    return batch.sort((a, b) => a.id < b.id ? -1 : 1)
  }

  #send (batch: Array<Entry<Item, Result>>): void {
    const sentAt = performance.now()
    const place = this.#underWay.add(sentAt)
    const done = () => {
      this.#underWay.remove(place)
      this.#learn(performance.now() - sentAt)
      for (const entry of batch) this.#release(entry.id)
      if (this.#ready.length > 0) this.#schedule()
    }
    this.#runTogether(batch).then(done, done)
  }

  async #runTogether (batch: Array<Entry<Item, Result>>): Promise<void> {
    try {
      const results = await this.#options.run(batch.map((entry) => entry.item))
      if (results.length !== batch.length) throw new Error(`${this.#options.name}: ${results.length} results for ${batch.length} items`)
      batch.forEach((entry, index) => { entry.resolve(results[index] as Result) })
    } catch (error) {
      if (batch.length > 1 && this.#options.provenRolledBack(error)) await this.#runSingly(batch)
      else for (const entry of batch) entry.reject(error)
    }
  }

  /** Stops at the first failure that is no proven rollback. A store that went away is not asked once per item. */
  async #runSingly (batch: Array<Entry<Item, Result>>): Promise<void> {
    let gone: { readonly error: unknown } | null = null
    for (const entry of batch) {
      if (gone !== null) {
        entry.reject(gone.error)
        continue
      }
      try {
        const [result] = await this.#options.run([entry.item])
        entry.resolve(result as Result)
      } catch (error) {
        if (!this.#options.provenRolledBack(error)) gone = { error }
        entry.reject(error)
      }
    }
  }

  /** The oldest entry that waits behind this id becomes ready. */
  #release (id: string): void {
    const behind = this.#behind.get(id)
    const next = behind?.shift()
    if (next === undefined) this.#behind.delete(id)
    else this.#ready.push(next)
  }
}
