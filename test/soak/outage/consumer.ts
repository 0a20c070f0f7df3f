/**
 * The consumer of an outage: it takes messages, then breaks off every delivery, then says nothing at all, then takes
 * messages again. It writes down, in the order in which it saw them, what was asked of it and what became of that.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Random } from '../../chaos/random.ts'

/** before, after: it takes what comes. refusing: it resets the connection of every request. silent: it reads, and never answers. */
export type Phase = 'before' | 'refusing' | 'silent' | 'after'

export interface Seen {
  readonly atMs: number
  readonly phase: Phase
  /** asked: a delivery has come. taken: it was answered with 204, which nobody has read yet. lost: it had no answer. */
  readonly kind: 'asked' | 'taken' | 'lost'
  readonly gateway: string
  readonly route: string
  readonly message: number
  readonly group: number | null
}

/** What one message costs it. Long enough that places, not round trips, are what a route runs out of. */
const WORK_MS_LEAST = 40
const WORK_MS_MOST = 120

export class OutageConsumer {
  readonly url: string
  readonly seen: Seen[] = []
  taken = 0
  readonly #server: Server
  readonly #random: Random
  readonly #hanging = new Set<ServerResponse>()
  #phase: Phase = 'before'

  static async start (random: Random): Promise<OutageConsumer> {
    const server = createServer({ keepAliveTimeout: 60_000 })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new OutageConsumer(server, random)
  }

  private constructor (server: Server, random: Random) {
    this.#server = server
    this.#random = random
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    server.on('request', (request: IncomingMessage, response: ServerResponse) => { this.#receive(request, response) })
  }

  get phase (): Phase { return this.#phase }

  /** Who is back has forgotten whom it kept waiting. */
  become (phase: Phase): void {
    this.#phase = phase
    if (phase !== 'silent') for (const response of this.#hanging) response.socket?.resetAndDestroy()
  }

  async stop (): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #receive (request: IncomingMessage, response: ServerResponse): void {
    response.on('error', () => {})
    request.on('error', () => {})
    request.resume()
    const { pathname, searchParams } = new URL(request.url ?? '/', this.url)
    const group = searchParams.get('group')
    const about = {
      gateway: String(request.headers['x-gateway']),
      route: pathname.slice(1),
      message: Number(searchParams.get('message')),
      group: group === null ? null : Number(group)
    }
    let over = false
    const note = (kind: Seen['kind']): void => { this.seen.push({ atMs: performance.now(), phase: this.#phase, kind, ...about }) }
    const lose = (): void => {
      this.#hanging.delete(response)
      if (!over) note('lost')
      over = true
    }
    response.once('close', lose)
    note('asked')
    if (this.#phase === 'refusing') {
      lose()
      response.socket?.resetAndDestroy()
    } else if (this.#phase === 'silent') {
      this.#hanging.add(response)
    } else {
      setTimeout(
        () => { if (!over) this.#take(response, () => { over = true; note('taken') }) },
        this.#random.between(WORK_MS_LEAST, WORK_MS_MOST)
      )
    }
  }

  /** Written down before it is said: whoever acts on the answer acts after this line. */
  #take (response: ServerResponse, noteTaken: () => void): void {
    if (this.#phase === 'refusing' || this.#phase === 'silent') {
      response.socket?.resetAndDestroy()
      return
    }
    noteTaken()
    this.taken++
    response.writeHead(204).end()
  }
}
