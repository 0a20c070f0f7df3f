/** Whole cells: gateways, a Postgres with a synchronous standby and a Redis each, behind nginx and HAProxy. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Cells, RoutedBy } from '../../src/core/cells/cells.ts'
import { configOf } from '../e2e/world.ts'
import { makeDirectory } from '../harness/directory.ts'
import { freePort } from '../harness/ports.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import type { Proxy } from '../harness/proxies.ts'
import { startRedis } from '../harness/redis.ts'
import type { RedisServer } from '../harness/redis.ts'
import { startPair } from '../harness/replication.ts'
import type { Pair } from '../harness/replication.ts'
import { cellsOf, filesFor, PROXIES, startRouter } from './cells.ts'

/** A test, or a command that ends. */
export interface Ending { after: (end: () => Promise<void>) => void }

export interface WholeCell {
  readonly name: string
  readonly pair: Pair
  /** Of the gateways. */
  readonly database: string
  readonly redis: RedisServer
  readonly gateways: ProcessGateway[]
}

export interface WorldOptions {
  readonly by: RoutedBy
  readonly upstream: string
  readonly gatewaysPerCell: number
}

const HEADERS: Readonly<Record<RoutedBy, string>> = { key: 'header: Idempotency-Key', tenant: 'header: X-Tenant', host: '' }
const ASSIGNED: Readonly<Record<RoutedBy, string>> = {
  key: '',
  tenant: 'assigned: { acme: a, globex: b }',
  host: 'assigned: { acme.example.com: a, globex.example.com: b }'
}

/** Slots and gateways of each cell, as the file of cells has them. */
export type Plan = Readonly<Record<string, { readonly slots: string, readonly gateways: readonly ProcessGateway[] }>>

export class World {
  readonly cells: WholeCell[] = []
  readonly proxies: Proxy[] = []
  readonly #options: WorldOptions
  readonly #ending: Ending
  readonly #directory: string

  constructor (ending: Ending, options: WorldOptions) {
    this.#ending = ending
    this.#options = options
    const directory = makeDirectory('cells')
    this.#directory = directory.path
    ending.after(async () => { await Promise.resolve(directory.remove()) })
  }

  /** Two cells with half of the slots each. */
  async start (): Promise<void> {
    this.cells.push(...await Promise.all(['a', 'b'].map(async (name) => this.#cell(name))))
    const plan = Object.fromEntries(this.cells.map(({ name, gateways }, at) => [name, { slots: at === 0 ? '0-499' : '500-999', gateways }]))
    for (const name of PROXIES) {
      const proxy = await startRouter(name, await this.#route(name, plan), this.#cellsFor(name, plan))
      this.#ending.after(async () => proxy.stop())
      this.proxies.push(proxy)
    }
  }

  /** The file of cells of a proxy. */
  fileOf (proxy: string): string { return join(this.#directory, `cells-${proxy}.yaml`) }

  /** Both proxies route by this plan from now on, except for what their old processes have left to do. */
  async reload (plan: Plan): Promise<void> {
    for (const proxy of this.proxies) await proxy.reload(filesFor(proxy.name, this.#cellsFor(proxy.name, plan)))
  }

  async gatewaysOf (database: string, redis: RedisServer): Promise<ProcessGateway[]> {
    const config = configOf({ database, redis: redis.url, upstream: this.#options.upstream })
    return Promise.all(Array.from({ length: this.#options.gatewaysPerCell }, () => startProcess(this.#ending, { config })))
  }

  async redis (): Promise<RedisServer> {
    const redis = await startRedis()
    this.#ending.after(async () => redis.stop())
    return redis
  }

  async #cell (name: string): Promise<WholeCell> {
    const [pair, redis] = await Promise.all([startPair({ synchronous: true }), this.redis()])
    this.#ending.after(async () => pair.stop())
    const database = await pair.createDatabase(`cell_${name}`)
    return { name, pair, database, redis, gateways: await this.gatewaysOf(database, redis) }
  }

  readonly #ports = new Map<string, number>()

  async #route (proxy: string, plan: Plan): Promise<number> {
    const port = await freePort()
    this.#ports.set(proxy, port)
    this.#cellsFor(proxy, plan)
    return port
  }

  #cellsFor (proxy: string, plan: Plan): Cells {
    const { by } = this.#options
    const lines = Object.entries(plan).map(([name, { slots, gateways }]) =>
      `  ${name}: { slots: "${slots}", gateways: [${gateways.map(({ url }) => `"${new URL(url).host}"`).join(', ')}] }`)
    const yaml = `by: ${by}
${HEADERS[by]}
listen: 127.0.0.1:${this.#ports.get(proxy) ?? 0}
cells:
${lines.join('\n')}
${ASSIGNED[by]}
`
    writeFileSync(this.fileOf(proxy), yaml)
    return cellsOf(yaml)
  }
}
