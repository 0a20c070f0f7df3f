/**
 * A TCP address of 127.0.0.1 that forwards to another address, which can be changed: a stable name for changing servers.
 * test/chaos/proxy.ts is the proxy that misbehaves on purpose.
 */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Server, Socket } from 'node:net'

export class Relay {
  readonly #server: Server
  readonly #pairs = new Set<readonly [Socket, Socket]>()
  /** null: no target. Connections are closed as they come. */
  #target: number | null
  #holding = false

  constructor (target: number) {
    this.#target = target
    this.#server = createServer({ noDelay: true }, (near) => { this.#accept(near) })
  }

  get port (): number { return (this.#server.address() as AddressInfo).port }

  async listen (): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** Where the next connections go. */
  aim (target: number | null): void { this.#target = target }

  cut (): void {
    // Not resetAndDestroy: during a pending end() Node loses the handle, and spins when the process ends.
    for (const [near, far] of this.#pairs) {
      near.destroy()
      far.destroy()
    }
  }

  /** Connections stay open, and nothing passes any more. */
  hold (): void {
    this.#holding = true
    for (const pair of this.#pairs) still(pair)
  }

  async close (): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.cut()
    await closed
  }

  #accept (near: Socket): void {
    near.on('error', () => {})
    if (this.#target === null) {
      near.destroy()
      return
    }
    const far = connect({ port: this.#target, host: '127.0.0.1', noDelay: true })
    far.on('error', () => {})
    const pair = [near, far] as const
    this.#pairs.add(pair)
    for (const [one, other] of [[near, far], [far, near]] as const) {
      one.on('close', () => {
        this.#pairs.delete(pair)
        other.destroy()
      })
      one.pipe(other)
    }
    if (this.#holding) still(pair)
  }
}

function still ([near, far]: readonly [Socket, Socket]): void {
  for (const socket of [near, far]) {
    socket.unpipe()
    socket.pause()
  }
}
