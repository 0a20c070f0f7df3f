/** The counts before their database has been reached: as late.ts has the records. */
import type { RecordCounts, RecordStore } from '../ports.ts'
import { StoreNotOpened } from '../errors.ts'

export class LateCounts implements RecordCounts {
  readonly #name: RecordStore['name']
  #counts: RecordCounts | null = null

  constructor (name: RecordStore['name']) {
    this.#name = name
  }

  become (counts: RecordCounts): void {
    this.#counts = counts
  }

  add: RecordCounts['add'] = async counts => this.#get('counts').add(counts)
  sweep: RecordCounts['sweep'] = async limit => this.#get('counts').sweep(limit)

  #get (operation: string): RecordCounts {
    if (this.#counts === null) throw new StoreNotOpened(this.#name, operation)
    return this.#counts
  }
}
