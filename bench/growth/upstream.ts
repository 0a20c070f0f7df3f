/** The upstream's process, seen from the run. Asks are answered in their order. */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export type UpstreamAsk = { readonly kind: 'hold' | 'release' | 'count' }

export interface UpstreamCounts {
  readonly executions: number
  readonly keys: number
  /** Keys that were executed more than once. */
  readonly twice: number
  /** Executions of keys that have their answer in the table, or of no key of ours. */
  readonly strangers: number
  /** Requests that wait for `release`. */
  readonly held: number
}

export type UpstreamReply =
  | { readonly kind: 'listens', readonly port: number }
  | { readonly kind: 'done', readonly counts: UpstreamCounts }

const FILE = fileURLToPath(new URL('upstream-process.ts', import.meta.url))

export class Upstream {
  readonly url: string
  readonly #child: ChildProcess

  static async start (): Promise<Upstream> {
    const child = fork(FILE, { stdio: 'inherit' })
    const reply = await replyOf(child)
    if (reply.kind !== 'listens') throw new Error('the upstream did not say where it listens')
    return new Upstream(child, reply.port)
  }

  private constructor (child: ChildProcess, port: number) {
    this.#child = child
    this.url = `http://127.0.0.1:${port}`
  }

  async ask (kind: UpstreamAsk['kind']): Promise<UpstreamCounts> {
    const reply = replyOf(this.#child)
    this.#child.send({ kind } satisfies UpstreamAsk)
    const answered = await reply
    if (answered.kind !== 'done') throw new Error('the upstream started anew')
    return answered.counts
  }

  async stop (): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const exited = once(this.#child, 'exit')
    this.#child.disconnect()
    await exited
  }
}

async function replyOf (child: ChildProcess): Promise<UpstreamReply> {
  const ended = new AbortController()
  const gone = (): void => { ended.abort(new Error('the upstream has ended')) }
  child.once('exit', gone)
  try {
    const [reply] = await once(child, 'message', { signal: ended.signal }) as [UpstreamReply]
    return reply
  } finally {
    child.off('exit', gone)
  }
}

/** What is wrong about the executions of a run; empty: every made key was executed once, no seeded one at all. */
export function wrongExecutions ({ twice, strangers }: UpstreamCounts): string[] {
  return [
    ...twice === 0 ? [] : [`${twice} keys were executed more than once`],
    ...strangers === 0 ? [] : [`${strangers} executions of keys whose answer is in the table`]
  ]
}
