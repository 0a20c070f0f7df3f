/** The command line as a process of its own, whose lines a test reads one by one. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { TestContext } from 'node:test'
import { bareEnv } from '../harness/process-gateway.ts'
import { directory } from './world.ts'

export const MAIN = new URL('../../src/main.ts', import.meta.url).pathname
/** Free ports, nothing but errors in the log, and no time lost in draining unless a test is about that. */
export const QUICK = {
  ONCEWAY_ADMIN_PORT: '0',
  ONCEWAY_LISTEN_PORT: '0',
  ONCEWAY_LISTEN_HOST: '127.0.0.1',
  ONCEWAY_LOG_LEVEL: 'error',
  ONCEWAY_DRAIN_DELAY: '0s',
  ONCEWAY_DRAIN_TIMEOUT: '1s'
}
/** Longer than serve takes a repeated signal for the same wish. */
export const ANOTHER_WISH_MS = 600

export class Onceway {
  readonly process: ChildProcess
  readonly ended: Promise<number | null>
  out = ''
  err = ''
  readonly #lines: AsyncIterator<string>

  /** An empty variable counts as unset. */
  constructor (t: TestContext, args: readonly string[], env: Record<string, string> = {}, cwd = directory(t)) {
    this.process = spawn(process.execPath, [MAIN, ...args], {
      env: { ...bareEnv(), ...QUICK, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      cwd
    })
    this.ended = new Promise((resolve) => { this.process.once('close', resolve) })
    this.process.stderr?.on('data', (chunk: Buffer) => { this.err += chunk.toString() })
    const { stdout } = this.process
    assert.ok(stdout)
    this.#lines = createInterface({ input: stdout })[Symbol.asyncIterator]()
    t.after(async () => {
      this.process.kill('SIGKILL')
      await this.ended
    })
  }

  /** Reads on until a line matches. */
  async says (pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const { done, value } = await this.#lines.next()
      if (done === true) throw new Error(`it ended without saying ${String(pattern)}: ${this.out}${this.err}`)
      this.out += `${value}\n`
      const match = pattern.exec(value)
      if (match !== null) return match
    }
  }

  /** Its last line, once it has ended. */
  async lastLine (): Promise<string | undefined> {
    for (;;) {
      const { done, value } = await this.#lines.next()
      if (done === true) return this.out.trimEnd().split('\n').at(-1)
      this.out += `${value}\n`
    }
  }

  async urls (): Promise<{ url: string, adminUrl: string }> {
    const [, url = '', adminUrl = ''] = await this.says(/listens on (http:\S+) +\(admin: (http:[^)]+)\)/)
    return { url, adminUrl }
  }
}

export async function pay (url: string, key: string): Promise<string | null> {
  const answer = await fetch(`${url}/v1/payments`, {
    method: 'POST',
    headers: { 'idempotency-key': key, connection: 'close' },
    body: '{"amount":1,"currency":"EUR"}'
  })
  await answer.text()
  return answer.headers.get('idempotency-status')
}
