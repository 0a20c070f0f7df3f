/** Clients that are programs of their own: curl, a process for each call, and Python's libraries, one process for all calls of a row. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { makeDirectory } from '../../harness/directory.ts'
import { bareEnv } from '../../harness/process-gateway.ts'
import { parsed } from './client.ts'
import type { Call, Client, Ending } from './client.ts'

/** Into a file: what curl writes elsewhere holds the bodies of all tries. */
export function curlClient (args: readonly string[]): Client {
  const directory = makeDirectory('curl')
  let calls = 0
  return {
    send: async ({ url, key, amount, timeoutMs }) => {
      const file = join(directory.path, String(++calls))
      const more = [
        '-sS',
        '-o',
        file,
        '-w',
        '%{http_code}',
        '--max-time',
        String(timeoutMs / 1000),
        '-H',
        `Idempotency-Key: ${key}`,
        '-H',
        'Authorization: Bearer of-nobody',
        '-H',
        'Content-Type: application/json',
        '-d',
        JSON.stringify({ amount }),
        `${url}/orders`
      ]
      const { code, stdout } = await new Promise<{ readonly code: number, readonly stdout: string }>((resolve) => {
        execFile('curl', [...args, ...more], { env: bareEnv() }, (error, stdout) => {
          resolve({ code: error === null ? 0 : Number(error.code), stdout })
        })
      })
      return stdout === '000' ? { error: `curl ${code}` } : { status: Number(stdout), body: parsed(readFileSync(file, 'utf8')) }
    },
    close: async () => { directory.remove() }
  }
}

const DRIVE = fileURLToPath(new URL('drive.py', import.meta.url))

/** Debian's own Python, for which its packages are. */
export function pythonClient (mode: 'requests' | 'requests-retry' | 'httpx'): Client {
  let process: ReturnType<typeof start> | undefined
  return {
    send: async (call) => (process ??= start(mode)).send(call),
    close: async () => process?.close()
  }
}

function start (mode: string): { readonly send: Client['send'], readonly close: () => Promise<void> } {
  const child = spawn('/usr/bin/python3', [DRIVE, mode], { stdio: ['pipe', 'pipe', 'inherit'], env: bareEnv() })
  const waiting = new Map<number, (ending: Ending) => void>()
  createInterface(child.stdout).on('line', (line) => {
    const { number, error, status, text } = JSON.parse(line) as { number: number, error?: string, status: number, text: string }
    waiting.get(number)?.(error === undefined ? { status, body: parsed(text) } : { error })
  })
  let calls = 0
  return {
    send: async (call: Call) => new Promise<Ending>((resolve) => {
      const number = ++calls
      waiting.set(number, resolve)
      child.stdin.write(`${JSON.stringify({ ...call, number })}\n`)
    }),
    close: async () => {
      const ended = once(child, 'exit')
      child.stdin.end()
      await ended
    }
  }
}
