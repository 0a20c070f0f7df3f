/** A process's memory as the kernel and its own metrics tell it, watched while something runs. */
import { readFileSync } from 'node:fs'
import { metricsOf, totalOf } from '../../test/e2e/metrics.ts'
import type { GatewayProcess } from '../../test/soak/gateway-process.ts'

export interface Memory {
  readonly rss: number
  /** The lowest of several looks: about what a collection left. */
  readonly heap: number
  /** Buffers: bodies, sockets, what the stores were sent. */
  readonly external: number
}

/** A collection falls between two looks now and then; over a second or more one of them comes soon after it. */
const LOOK_EVERY_MS = 200

/** Looks on and on; {@link take} says what was seen since the last one, with the RSS of now. */
export class MemoryWatch {
  readonly #gateway: GatewayProcess
  #lowest: Omit<Memory, 'rss'> | null = null
  #looking: Promise<void> = Promise.resolve()
  #stopped = false

  constructor (gateway: GatewayProcess) { this.#gateway = gateway }

  start (): this {
    this.#looking = this.#run()
    this.#looking.catch(() => {})
    return this
  }

  async take (): Promise<Memory> {
    await this.#look()
    const lowest = this.#lowest as Omit<Memory, 'rss'>
    this.#lowest = null
    return { rss: rssOf(this.#gateway.pid), ...lowest }
  }

  async stop (): Promise<void> {
    this.#stopped = true
    await this.#looking
  }

  async #run (): Promise<void> {
    while (!this.#stopped) {
      await this.#look()
      await pause(LOOK_EVERY_MS)
    }
  }

  async #look (): Promise<void> {
    const metrics = await metricsOf(this.#gateway.adminUrl)
    const heap = totalOf(metrics, 'nodejs_heap_size_used_bytes')
    const external = totalOf(metrics, 'nodejs_external_memory_bytes')
    this.#lowest = this.#lowest === null
      ? { heap, external }
      : { heap: Math.min(heap, this.#lowest.heap), external: Math.min(external, this.#lowest.external) }
  }
}

function rssOf (pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? []
  if (kilobytes === undefined) throw new Error(`the kernel does not say what memory process ${pid} has`)
  return Number(kilobytes) * 1024
}

export async function pause (ms: number): Promise<void> {
  await new Promise<void>((resolve) => { setTimeout(resolve, ms) })
}
