/** The network between one client and a gateway: it counts requests and answers, and loses an answer on its way. */
import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { wholeLength } from '../../harness/scripted.ts'

export class Line {
  /** Where the next connection goes. */
  target: number
  /** So many answers are lost: the connection ends as soon as their first byte has come. */
  losing = 0
  requests = 0
  answers = 0
  readonly #server = createServer({ noDelay: true }, (near) => { this.#accept(near) })
  readonly #sockets = new Set<Socket>()
  readonly #waiting = new Set<() => void>()

  constructor (target: number) {
    this.target = target
  }

  get url (): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async listen (): Promise<void> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
  }

  /** Resolves when so many requests have come whole, or answers begun. */
  async seen (what: 'requests' | 'answers', count: number): Promise<void> {
    while (this[what] < count) await new Promise<void>((resolve) => { this.#waiting.add(resolve) })
  }

  async close (): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #count (what: 'requests' | 'answers'): void {
    this[what]++
    for (const look of this.#waiting) look()
    this.#waiting.clear()
  }

  #accept (near: Socket): void {
    const far = connect({ port: this.target, host: '127.0.0.1', noDelay: true })
    for (const [socket, other] of [[near, far], [far, near]] as const) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('end', () => { other.end() })
      // What a client has sent before it went arrives all the same.
      socket.on('close', (failed: boolean) => {
        this.#sockets.delete(socket)
        if (failed && socket === far) near.destroy()
        else other.end()
      })
    }
    let rest = ''
    /** Requests of this connection less answers: what comes while it is 0 is the rest of an answer. */
    let open = 0
    near.on('data', (chunk) => {
      far.write(chunk)
      rest += chunk.toString('latin1')
      for (let length = wholeLength(rest); length !== null; length = wholeLength(rest)) {
        rest = rest.slice(length)
        open++
        this.#count('requests')
      }
    })
    far.on('data', (chunk) => {
      if (open > 0) {
        open--
        this.#count('answers')
        if (this.losing > 0) {
          this.losing--
          near.destroy()
        }
      }
      if (!near.destroyed) near.write(chunk)
    })
  }
}
