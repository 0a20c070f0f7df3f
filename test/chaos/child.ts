/**
 * A part of the run in a process of its own, which is called by messages: one call, one reply, in any order.
 * When the run ends, the channel closes and the process ends itself.
 */
import { fork } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { fileURLToPath } from 'node:url'

interface Call { readonly number: number, readonly operation: string, readonly args: readonly unknown[] }
interface Reply { readonly number: number, readonly value?: unknown, readonly error?: string }

/** What a part can be asked. Values must survive structured cloning. */
export type Operations = Readonly<Record<string, (...args: never[]) => unknown>>
type Asked<Part extends Operations> = { readonly [Name in keyof Part]: (
  ...args: Parameters<Part[Name]>
) => Promise<Awaited<ReturnType<Part[Name]>>> }

export interface Started<Part extends Operations> {
  readonly ask: Asked<Part>
  readonly pid: number
  readonly end: () => Promise<void>
}

export function startPart<Part extends Operations> (file: string, args: readonly string[]): Started<Part> {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, {
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    execArgv: ['--disable-proto=delete']
  })
  const calls = new Calls(child)
  const ask = new Proxy({}, { get: (_, operation) => async (...given: unknown[]) => calls.call(String(operation), given) }) as Asked<Part>
  const exited = new Promise<void>((resolve) => { child.once('exit', () => { resolve() }) })
  return {
    ask,
    pid: child.pid ?? 0,
    end: async () => {
      if (child.connected) child.disconnect()
      await exited
    }
  }
}

class Calls {
  readonly #child: ChildProcess
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #number = 0

  constructor (child: ChildProcess) {
    this.#child = child
    child.on('message', (message) => { this.#reply(message as Reply) })
    child.on('exit', (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`a part of the run ended with ${code}`))
      this.#waiting.clear()
    })
  }

  async call (operation: string, args: readonly unknown[]): Promise<unknown> {
    const call: Call = { number: ++this.#number, operation, args }
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(call.number, waiting)
    this.#child.send(call, (error) => { if (error !== null) waiting.reject(error) })
    return waiting.promise
  }

  #reply ({ number, value, error }: Reply): void {
    const waiting = this.#waiting.get(number)
    this.#waiting.delete(number)
    if (error === undefined) waiting?.resolve(value)
    else waiting?.reject(new Error(error))
  }
}

/** The other end: this process answers until its parent closes the channel. */
export function servePart (operations: Operations): void {
  process.on('message', (message) => { void answer(operations, message as Call) })
  process.on('disconnect', () => { process.exit(0) })
}

async function answer (operations: Operations, { number, operation, args }: Call): Promise<void> {
  const reply = (message: Reply): void => { if (process.connected) process.send?.(message) }
  try {
    const work = operations[operation]
    if (work === undefined) throw new Error(`nobody here can ${operation}`)
    reply({ number, value: await (work as (...given: unknown[]) => unknown)(...args) })
  } catch (error) {
    reply({ number, error: error instanceof Error ? error.stack ?? error.message : String(error) })
  }
}
