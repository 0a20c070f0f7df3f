import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { bareEnv } from '../harness/process-gateway.ts'
import { directory, fileIn } from './world.ts'

const MAIN = new URL('../../src/main.ts', import.meta.url).pathname
/** Free ports, nothing but errors in the log, and no time lost in draining unless a test is about that. */
const QUICK = { ONCEWAY_ADMIN_PORT: '0', ONCEWAY_LISTEN_PORT: '0', ONCEWAY_LISTEN_HOST: '127.0.0.1', ONCEWAY_LOG_LEVEL: 'error', ONCEWAY_DRAIN_DELAY: '0s', ONCEWAY_DRAIN_TIMEOUT: '1s' }
/** Longer than serve takes a repeated signal for the same wish. */
const ANOTHER_WISH_MS = 600

class Onceway {
  readonly process: ChildProcess
  readonly ended: Promise<number | null>
  out = ''
  err = ''
  readonly #lines: AsyncIterator<string>

  constructor (t: TestContext, args: readonly string[], env: Record<string, string> = {}) {
    this.process = spawn(process.execPath, [MAIN, ...args], { env: { ...bareEnv(), ...QUICK, ...env }, stdio: ['ignore', 'pipe', 'pipe'], cwd: directory(t) })
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

  async urls (): Promise<{ url: string, adminUrl: string }> {
    const [, url = '', adminUrl = ''] = await this.says(/listens on (http:\S+) +\(admin: (http:[^)]+)\)/)
    return { url, adminUrl }
  }
}

async function pay (url: string, key: string): Promise<string | null> {
  const answer = await fetch(`${url}/v1/payments`, { method: 'POST', headers: { 'idempotency-key': key, connection: 'close' }, body: '{"amount":1,"currency":"EUR"}' })
  await answer.text()
  return answer.headers.get('idempotency-status')
}

test('without anything it guards a toy payments API, prints what to try, and ends with 0 on SIGTERM', async (t) => {
  const onceway = new Onceway(t, ['serve'])
  const { url } = await onceway.urls()
  await onceway.says(/curl -i http:.* -H 'Idempotency-Key: order-1'.*replayed/)
  assert.deepEqual([await pay(url, 'order-1'), await pay(url, 'order-1')], ['executed', 'replayed'])
  onceway.process.kill('SIGTERM')
  assert.deepEqual([await onceway.ended, onceway.err], [0, ''])
})

test('SIGINT ends it too, and two signals at once are one wish', async (t) => {
  const onceway = new Onceway(t, ['serve'])
  await onceway.urls()
  // Two different ones: the system merges equal signals that nobody has taken yet.
  onceway.process.kill('SIGINT')
  onceway.process.kill('SIGTERM')
  assert.equal(await onceway.ended, 0)
})

test('a second signal ends it at once with 1', async (t) => {
  const onceway = new Onceway(t, ['serve'], { ONCEWAY_DRAIN_DELAY: '60s' })
  const { adminUrl } = await onceway.urls()
  onceway.process.kill('SIGTERM')
  while ((await fetch(`${adminUrl}/readyz`)).status !== 503) await wait(10)
  await wait(ANOTHER_WISH_MS)
  onceway.process.kill('SIGTERM')
  assert.equal(await onceway.ended, 1)
  assert.match(onceway.err, /SIGTERM again: ending at once/)
})

test('a broken configuration is exit 2 with every mistake, and nothing listens', async (t) => {
  const onceway = new Onceway(t, ['serve', '--config', fileIn(t, 'onceway.yaml', 'version: 2\nlisen: {}\n')])
  assert.equal(await onceway.ended, 2)
  assert.match(onceway.err, /onceway\.yaml:1:10: version: \d+ must be 1\n.*onceway\.yaml:2:1: lisen: is not known/)
  assert.match(onceway.err, /upstreams: is missing\n.*routes: is missing/)
  assert.ok(!onceway.out.includes('listens'))
})

test('an upstream that is no URL is exit 2', async (t) => {
  const onceway = new Onceway(t, ['serve', '--upstream', 'localhost:3000'])
  assert.equal(await onceway.ended, 2)
  assert.match(onceway.err, /--upstream: upstreams\.default\.url: /)
})

test('a port in use is one sentence and exit 1', async (t) => {
  const other = createServer()
  await new Promise<void>((resolve) => { other.listen(0, '127.0.0.1', resolve) })
  t.after(() => { other.close() })
  const { port } = other.address() as AddressInfo
  const onceway = new Onceway(t, ['serve', '--port', String(port)])
  assert.equal(await onceway.ended, 1)
  assert.match(onceway.err, new RegExp(`^onceway: port ${port} .* is in use[^\\n]*\\n$`))
})

test('a data directory that cannot be written, or that another process holds, is one sentence and exit 1', async (t) => {
  const impossible = new Onceway(t, ['serve', '--data-dir', '/dev/null/records'])
  assert.equal(await impossible.ended, 1)
  assert.match(impossible.err, /^onceway: [^\n]*\/dev\/null[^\n]*\n$/)
  const dataDir = directory(t)
  await new Onceway(t, ['serve', '--data-dir', dataDir]).urls()
  const second = new Onceway(t, ['serve', '--data-dir', dataDir])
  assert.equal(await second.ended, 1)
  assert.match(second.err, /^onceway: [^\n]+\n$/)
})

test('migrate prepares the embedded store', async (t) => {
  const onceway = new Onceway(t, ['migrate', '--data-dir', 'records'])
  await onceway.says(/The embedded store under .*records is up to date\./)
  assert.equal(await onceway.ended, 0)
})

test('demo shows six requests and two payments', async (t) => {
  const onceway = new Onceway(t, ['demo'])
  await onceway.says(/201 replayed/)
  await onceway.says(/422 mismatch/)
  await onceway.says(/Requests sent by clients: 6\. Payments made: 2\./)
  onceway.process.stdout?.resume()
  assert.equal(await onceway.ended, 0)
})
