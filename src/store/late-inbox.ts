/** The inbox before its database has been reached: as late.ts has the records. */
import type { InboxStore, RecordStore } from '../ports.ts'
import { StoreNotOpened } from '../errors.ts'

export class LateInbox implements InboxStore {
  readonly #name: RecordStore['name']
  #inbox: InboxStore | null = null

  constructor (name: RecordStore['name']) {
    this.#name = name
  }

  become (inbox: InboxStore): void {
    this.#inbox = inbox
  }

  accept: InboxStore['accept'] = async message => this.#get('accept').accept(message)
  acceptAll: InboxStore['acceptAll'] = async messages => this.#get('accept').acceptAll(messages)
  look: InboxStore['look'] = async id => this.#get('look').look(id)
  alive: InboxStore['alive'] = async (owner, leaseMs) => this.#get('alive').alive(owner, leaseMs)
  gone: InboxStore['gone'] = async owner => this.#inbox?.gone(owner)
  take: InboxStore['take'] = async order => this.#get('take').take(order)
  settle: InboxStore['settle'] = async (token, fate) => this.#get('settle').settle(token, fate)
  recover: InboxStore['recover'] = async limit => this.#get('recover').recover(limit)
  dueInMs: InboxStore['dueInMs'] = async routes => this.#get('due').dueInMs(routes)
  depths: InboxStore['depths'] = async () => this.#get('depths').depths()
  list: InboxStore['list'] = async filter => this.#get('list').list(filter)
  retry: InboxStore['retry'] = async (filter, audit) => this.#get('retry').retry(filter, audit)
  discard: InboxStore['discard'] = async (filter, audit) => this.#get('discard').discard(filter, audit)
  sweep: InboxStore['sweep'] = async limit => this.#get('sweep').sweep(limit)

  #get (operation: string): InboxStore {
    if (this.#inbox === null) throw new StoreNotOpened(this.#name, operation)
    return this.#inbox
  }
}
