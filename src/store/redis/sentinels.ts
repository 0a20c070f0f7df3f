/**
 * The sentinels of one master: which server it is now, and whether it has changed. All of them are asked, and the majority
 * counts. A sentinel that is cut off together with the old master goes on naming it.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { connectTo } from './client.ts'
import { addressText } from './topology-options.ts'
import type { Address, SentinelAt } from './topology-options.ts'

/** A sentinel has nothing to do but to answer. If one is late, its answer does not count. */
const ANSWER_MS_MAX = 500
/** After the start, or when all have been away: how long to wait for the sentinels that can be reached. */
const GATHERING_MS_MAX = 1_000
const GATHERING_LOOK_MS = 10
const SWITCHED = '+switch-master'

export class Sentinels {
  readonly #name: string
  readonly #clients: readonly Redis[]
  /** The master that the sentinels named last. */
  #named: string | null = null

  /** `onSwitch`: a sentinel says that there is another master now. */
  constructor ({ name, nodes, ...credentials }: SentinelAt, onSwitch: () => void) {
    this.#name = name
    this.#clients = nodes.map((node) => {
      const client = connectTo(node, { ...credentials, name: 'onceway-sentinels', commandTimeoutMs: ANSWER_MS_MAX })
      client.on('error', () => {})
      client.on('ready', () => { void this.#catchUp(client, onSwitch) })
      // Its name, then the old address and the new one.
      client.on('message', (channel: string, text: string) => { if (channel === SWITCHED && text.split(' ')[0] === name) onSwitch() })
      return client
    })
  }

  /** Rejects if no sentinel can say. */
  async master (): Promise<Address> {
    const ready = await this.#gathered()
    if (ready.length === 0) throw new Error('no sentinel answers')
    const answers = await Promise.all(ready.map(async (client) => this.#ask(client)))
    const counts = Map.groupBy(answers.filter((answer) => answer instanceof Object && 'host' in answer), addressText)
    const [most] = [...counts.values()].sort((one, other) => other.length - one.length)
    const address = most?.[0]
    if (address !== undefined) {
      this.#named = addressText(address)
      return address
    }
    const error = answers.find((answer) => answer instanceof Error)
    throw new Error(
      error === undefined ? `no sentinel knows a master called ${this.#name}` : `no sentinel says who is master: ${error.message}`
    )
  }

  /** Finds a switch that was announced while this client was not subscribed. */
  async #catchUp (client: Redis, onSwitch: () => void): Promise<void> {
    const before = this.#named
    await client.subscribe(SWITCHED).catch(() => {})
    const now = before === null ? null : await this.master().then(addressText, () => null)
    if (now !== null && now !== before) onSwitch()
  }

  close (): void {
    for (const client of this.#clients) client.disconnect()
  }

  /** A majority of the sentinels, or as many as are ready within a second. */
  async #gathered (): Promise<Redis[]> {
    const until = performance.now() + GATHERING_MS_MAX
    for (;;) {
      const ready = this.#clients.filter(({ status }) => status === 'ready')
      if (ready.length > this.#clients.length / 2 || performance.now() > until) return ready
      await sleep(GATHERING_LOOK_MS, undefined, { ref: false })
    }
  }

  /** null: it does not know the name. */
  async #ask (client: Redis): Promise<Address | Error | null> {
    try {
      const reply = await client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.#name)
      return Array.isArray(reply) ? { host: String(reply[0]), port: Number(reply[1]) } : null
    } catch (error) {
      return error instanceof Error ? error : new Error(String(error))
    }
  }
}
