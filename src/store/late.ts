/**
 * Stores that are not there yet: the gateway listens and says 503 (or passes through) until the arbiter has been reached,
 * and asks no Redis until the arbiter has named the installation (P2).
 */
import { StoreUnavailable } from '../errors.ts'
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

  insert: RecordStore['insert'] = async claim => await this.#get('insert').insert(claim)
  take: RecordStore['take'] = async (seen, claim, mayRetry) => await this.#get('take').take(seen, claim, mayRetry)
  confirm: RecordStore['confirm'] = async claim => await this.#get('confirm').confirm(claim)
  look: RecordStore['look'] = async id => await this.#get('look').look(id)
  renew: RecordStore['renew'] = async tokens => await this.#get('renew').renew(tokens)
  settle: RecordStore['settle'] = async settlement => await this.#get('settle').settle(settlement)
  settleLost: RecordStore['settleLost'] = async (settlement, claim) => await this.#get('settleLost').settleLost(settlement, claim)
  lapse: RecordStore['lapse'] = async order => await this.#get('lapse').lapse(order)
  sweep: RecordStore['sweep'] = async limit => await this.#get('sweep').sweep(limit)
  unresolved: RecordStore['unresolved'] = async () => await this.#get('unresolved').unresolved()
  list: RecordStore['list'] = async filter => await this.#get('list').list(filter)
  resolve: RecordStore['resolve'] = async resolution => await this.#get('resolve').resolve(resolution)
  expire: RecordStore['expire'] = async (token, audit) => await this.#get('expire').expire(token, audit)
  ping: RecordStore['ping'] = async () => await this.#get('ping').ping()
  close: RecordStore['close'] = async () => await this.#store?.close()

  /** Not reached yet: certainly nothing was written. */
  #get (operation: string): RecordStore {
    if (this.#store === null) throw new StoreUnavailable(this.name, operation, false)
    return this.#store
  }
}

export class LateLocks implements LockStore {
  #locks: LockStore = NO_LOCKS

  become (locks: LockStore): void {
    this.#locks = locks
  }

  get name (): LockStore['name'] { return this.#locks.name }

  lock: LockStore['lock'] = async (id, lock, ttlMs) => await this.#locks.lock(id, lock, ttlMs)
  renew: LockStore['renew'] = async (held, ttlMs) => await this.#locks.renew(held, ttlMs)
  swap: LockStore['swap'] = async (id, owner, value, ttlMs) => await this.#locks.swap(id, owner, value, ttlMs)
  unlock: LockStore['unlock'] = async (id, owner) => await this.#locks.unlock(id, owner)
  forget: LockStore['forget'] = async id => await this.#locks.forget(id)
  wake: LockStore['wake'] = id => { this.#locks.wake(id) }
  watch: LockStore['watch'] = async (id, onWake) => await this.#locks.watch(id, onWake)
  available: LockStore['available'] = () => this.#locks.available()
  close: LockStore['close'] = async () => await this.#locks.close()
}
