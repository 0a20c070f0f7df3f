/** The registry before its database has been reached: as late.ts has the records. */
import type { Registry } from '../ports.ts'
import { StoreNotOpened } from '../errors.ts'

export class LateRegistry implements Registry {
  readonly name: Registry['name']
  #registry: Registry | null = null

  constructor (name: Registry['name']) {
    this.name = name
  }

  become (registry: Registry): void {
    this.#registry = registry
  }

  register: Registry['register'] = async order => this.#get('register').register(order)
  registered: Registry['registered'] = async gateway => this.#get('registered').registered(gateway)
  differing: Registry['differing'] = async gateway => this.#get('differing').differing(gateway)
  withdraw: Registry['withdraw'] = async gateway => this.#registry?.withdraw(gateway)

  #get (operation: string): Registry {
    if (this.#registry === null) throw new StoreNotOpened(this.name, operation)
    return this.#registry
  }
}
