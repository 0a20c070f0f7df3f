/**
 * Has a process collect its garbage, all of it and that of its threads: what it then takes of memory is what it holds. Done by its
 * inspector, so that the process is the one that its users run.
 */
import { once } from 'node:events'
import type { ProcessGateway } from '../harness/process-gateway.ts'

/** The environment of a process that can be told. Its allocator gives large blocks back when they are free (glibc else learns not to). */
export const INSPECTED = { NODE_OPTIONS: '--inspect=127.0.0.1:0', MALLOC_MMAP_THRESHOLD_: '131072' } as const

const COLLECT = 'HeapProfiler.collectGarbage'

interface Told {
  readonly id?: number
  readonly method?: string
  readonly params?: { readonly sessionId?: string, readonly message?: string }
}

export class Collector {
  readonly #socket: WebSocket
  readonly #threads = new Set<string>()
  /** By whom it was asked and the number of the question. */
  readonly #asked = new Map<string, () => void>()
  #questions = 0

  private constructor (socket: WebSocket) {
    this.#socket = socket
    socket.addEventListener('message', ({ data }: MessageEvent) => { this.#hear(JSON.parse(String(data)) as Told) })
  }

  static async of (gateway: ProcessGateway): Promise<Collector> {
    const url = /Debugger listening on (ws:\S+)/.exec(gateway.output())?.[1]
    if (url === undefined) throw new Error(`the gateway's inspector does not listen:\n${gateway.output()}`)
    const socket = new WebSocket(url)
    await once(socket, 'open')
    const collector = new Collector(socket)
    await collector.#ask(null, 'NodeWorker.enable', { waitForDebuggerOnStart: false })
    return collector
  }

  async collect (): Promise<void> {
    await Promise.all([null, ...this.#threads].map(async (thread) => { await this.#ask(thread, COLLECT) }))
  }

  close (): void {
    this.#socket.close()
  }

  /** `thread`: null: the process' own. */
  async #ask (thread: string | null, method: string, params = {}): Promise<void> {
    const id = ++this.#questions
    const answered = Promise.withResolvers<undefined>()
    this.#asked.set(`${thread ?? ''} ${id}`, () => { answered.resolve(undefined) })
    const question = JSON.stringify({ id, method, params })
    this.#socket.send(thread === null
      ? question
      : JSON.stringify({
        id: ++this.#questions,
        method: 'NodeWorker.sendMessageToWorker',
        params: { sessionId: thread, message: question }
      }))
    await answered.promise
  }

  #hear ({ id, method, params: { sessionId = '', message = '{}' } = {} }: Told): void {
    if (method === 'NodeWorker.attachedToWorker') this.#threads.add(sessionId)
    if (method === 'NodeWorker.detachedFromWorker') this.#threads.delete(sessionId)
    const [thread, answer] = method === 'NodeWorker.receivedMessageFromWorker' ? [sessionId, (JSON.parse(message) as Told).id] : ['', id]
    const name = `${thread} ${answer}`
    this.#asked.get(name)?.()
    this.#asked.delete(name)
  }
}
