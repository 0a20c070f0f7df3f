import { freePort } from '../../test/harness/ports.ts'
import type { ProcessGateway } from '../../test/harness/process-gateway.ts'
import type { Stage } from './stage.ts'

/** A gateway that is killed and restarted with the same address and the same directory. */
export class Seat {
  readonly url: string
  readonly #start: () => Promise<ProcessGateway>
  #gateway: ProcessGateway

  private constructor (start: () => Promise<ProcessGateway>, gateway: ProcessGateway) {
    this.#start = start
    this.#gateway = gateway
    this.url = gateway.url
  }

  static async taken (stage: Stage, file: string, env: Readonly<Record<string, string>>): Promise<Seat> {
    const port = await freePort()
    const directory = `gateway-${port}`
    const start = async () => stage.gateway(file, env, { port, directory })
    return new Seat(start, await start())
  }

  /** The current process, until the next restart. */
  get gateway (): ProcessGateway { return this.#gateway }

  async restart (): Promise<void> {
    this.#gateway.signal('SIGKILL')
    await this.#gateway.exited
    this.#gateway = await this.#start()
  }
}
