/**
 * Stores that are not there yet: the gateway listens and says 503 (or passes through) until the arbiter has been reached,
 * and asks no Redis until the arbiter has named the installation (P2).
 */
import { StoreNotOpened } from '../errors.ts'
import type { LockStore, RecordStore } from '../ports.ts'
import { NO_LOCKS } from './no-locks.ts'

export class LateRecords implements RecordStore {
  readonly name: RecordStore['name']
  #store: RecordStore | null = null

  constructor (name: RecordStore['name']) {
    this.name = name
  }

  become (store: RecordStore): void {
    this.#store = store
  }

  get installation (): string { return this.#get('installation').installation }

  insert: RecordStore['insert'] = async claim => this.#get('insert').insert(claim)
  take: RecordStore['take'] = async (seen, claim, mayRetry) => this.#get('take').take(seen, claim, mayRetry)
  confirm: RecordStore['confirm'] = async claim => this.#get('confirm').confirm(claim)
  look: RecordStore['look'] = async id => this.#get('look').look(id)
  schemes: RecordStore['schemes'] = async () => this.#get('schemes').schemes()
  endEarlierScheme: RecordStore['endEarlierScheme'] = async () => this.#get('schemes').endEarlierScheme()
  lostAlgorithms: RecordStore['lostAlgorithms'] = async (lost, route) => this.#get('lostAlgorithms').lostAlgorithms(lost, route)
  mayBeLost: RecordStore['mayBeLost'] = async question => this.#get('mayBeLost').mayBeLost(question)
  renew: RecordStore['renew'] = async tokens => this.#get('renew').renew(tokens)
  settle: RecordStore['settle'] = async settlement => this.#get('settle').settle(settlement)
  settleLost: RecordStore['settleLost'] = async (settlement, claim, ageMs) => this.#get('settleLost').settleLost(settlement, claim, ageMs)
  lapse: RecordStore['lapse'] = async order => this.#get('lapse').lapse(order)
  sweep: RecordStore['sweep'] = async limit => this.#get('sweep').sweep(limit)
  takeProbes: RecordStore['takeProbes'] = async order => this.#get('takeProbes').takeProbes(order)
  noteProbe: RecordStore['noteProbe'] = async note => this.#get('noteProbe').noteProbe(note)
  unresolved: RecordStore['unresolved'] = async () => this.#get('unresolved').unresolved()
  list: RecordStore['list'] = async filter => this.#get('list').list(filter)
  resolve: RecordStore['resolve'] = async resolution => this.#get('resolve').resolve(resolution)
  expire: RecordStore['expire'] = async (token, audit) => this.#get('expire').expire(token, audit)
  beat: RecordStore['beat'] = async sign => this.#get('beat').beat(sign)
  close: RecordStore['close'] = async () => this.#store?.close()

  /** Not reached yet: certainly nothing was written. */
  #get (operation: string): RecordStore {
    if (this.#store === null) throw new StoreNotOpened(this.name, operation)
    return this.#store
  }
}

export class LateLocks implements LockStore {
  #locks: LockStore = NO_LOCKS

  become (locks: LockStore): void {
    this.#locks = locks
  }

  get name (): LockStore['name'] { return this.#locks.name }
  get mirror (): LockStore['mirror'] { return this.#locks.mirror }

  lock: LockStore['lock'] = async (id, lock, ttlMs) => this.#locks.lock(id, lock, ttlMs)
  renew: LockStore['renew'] = async (held, ttlMs) => this.#locks.renew(held, ttlMs)
  swap: LockStore['swap'] = async (id, owner, value, ttlMs) => this.#locks.swap(id, owner, value, ttlMs)
  unlock: LockStore['unlock'] = async (id, owner) => this.#locks.unlock(id, owner)
  clear: LockStore['clear'] = async (id, generation) => this.#locks.clear(id, generation)
  forget: LockStore['forget'] = async id => this.#locks.forget(id)
  wake: LockStore['wake'] = id => { this.#locks.wake(id) }
  watch: LockStore['watch'] = async (id, onWake) => this.#locks.watch(id, onWake)
  available: LockStore['available'] = () => this.#locks.available()
  close: LockStore['close'] = async () => this.#locks.close()
}
