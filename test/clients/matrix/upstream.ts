/** The API behind the gateway. What it does with a request goes by its key, so that many cells share it. */
import { startWitness } from '../../harness/witness.ts'
import type { Behaviour, Witness } from '../../harness/witness.ts'

/** What the API does with the `nth` request of one key. */
export type Deed = (nth: number, order: Order) => Behaviour | Promise<Behaviour>

export class Order {
  deed: Deed = () => this.done
  /** Requests that reached the API. */
  sent = 0
  /** How often it was done. */
  executed = 0
  readonly #waiting = new Set<() => void>()
  readonly key: string

  constructor (key: string) {
    this.key = key
  }

  /** It is done, and the answer says which time it was. What the SDKs take for a customer, a completion, a message. */
  readonly done: Behaviour = (_seen, response) => {
    const body = JSON.stringify({ id: this.#execute(), object: 'customer' })
    response.writeHead(201, { 'Content-Type': 'application/json' }).end(body)
  }

  /** Something was done, or not: nobody can tell from this. */
  readonly broken: Behaviour = (_seen, response) => {
    this.#execute()
    response.writeHead(500, { 'Content-Type': 'application/json' }).end('{"error":{"message":"broken"}}')
  }

  readonly notReady: Behaviour = (_seen, response) => {
    response.writeHead(503, { 'Content-Type': 'application/json', 'Retry-After': '1' }).end('{"error":{"message":"not ready"}}')
  }

  readonly breaksOff: Behaviour = (_seen, _response, socket) => {
    this.#execute()
    socket.destroy()
  }

  readonly breaksOffHalfway: Behaviour = (_seen, response, socket) => {
    const body = JSON.stringify({ id: this.#execute(), object: 'customer' })
    response.writeHead(201, { 'Content-Type': 'application/json', 'Content-Length': body.length }).write(body.slice(0, 10), () => {
      socket.destroy()
    })
  }

  /** Resolves when so many requests have come, or it was done so often. */
  async seen (what: 'sent' | 'executed', count: number): Promise<void> {
    while (this[what] < count) await new Promise<void>((resolve) => { this.#waiting.add(resolve) })
  }

  arrived (): number {
    return this.#count('sent')
  }

  #execute (): string {
    return `${this.key}-${this.#count('executed')}`
  }

  #count (what: 'sent' | 'executed'): number {
    for (const look of this.#waiting) look()
    this.#waiting.clear()
    return ++this[what]
  }
}

export interface Upstream { readonly witness: Witness, readonly order: (key: string) => Order }

export async function startUpstream (): Promise<Upstream> {
  const orders = new Map<string, Order>()
  const order = (key: string): Order => {
    const found = orders.get(key) ?? new Order(key)
    orders.set(key, found)
    return found
  }
  const witness = await startWitness(async (seen, ...rest) => {
    const one = order(String(seen.headers['idempotency-key']))
    const behaviour = await one.deed(one.arrived(), one)
    await behaviour(seen, ...rest)
  })
  return { witness, order }
}
