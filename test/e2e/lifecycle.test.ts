import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { call } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { bareEnv, MAIN, startProcess } from '../harness/process-gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Behaviour } from '../harness/witness.ts'
import { configOf } from './world.ts'

/** Twice the time in process/drain.ts, and a tenth of the drain's. */
const LAST_HEADS_ARE_OVER_MS = 1_000

const FILE = (upstream: string, drain: string, more = ''): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: ${drain}
upstreams: { witness: { url: "${upstream}", timeout: 20s } }
routes:
  - name: things
    match: { path: "/*", methods: [POST] }
    upstream: witness
    idempotency: { scope: public, lease: 2s, inFlight: { wait: 0s }${more} }
`

function serveOnce (args: readonly string[], env: Record<string, string> = {}): { status: number | null, stderr: string } {
  const { status, stderr } = spawnSync(process.execPath, [MAIN, 'serve', ...args], {
    encoding: 'utf8',
    timeout: 60_000,
    env: { ...bareEnv(), ...env }
  })
  return { status, stderr }
}

/** Resolves when new connections are no longer taken: from now on only what runs is waited for. */
async function refused (url: string): Promise<void> {
  while (await call(url, '/things', { method: 'GET' }).then(() => true, () => false)) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

function answering (body: Buffer): Behaviour {
  return (_seen, response) => { response.writeHead(201, { 'Content-Length': String(body.length) }).end(body) }
}

function directoryFor (t: TestContext): string {
  const directory = makeDirectory('lifecycle')
  t.after(() => { directory.remove() })
  return directory.path
}

describe('the life of a process', () => {
  test('SIGTERM: not ready at once, Connection: close on every answer, executions finished, exit 0', async (t) => {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (...args) => { await release.promise; await CREATED(...args) })
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: FILE(witness.url, '{ delay: 1s, timeout: 10s }') })
    const running = call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'drain' }, body: 'x' })
    await witness.reached(1)
    gateway.signal('SIGTERM')
    await gateway.logged((line) => line.msg === 'draining')
    const ready = await call(gateway.adminUrl, '/readyz', { method: 'GET' })
    assert.equal(ready.status, 503)
    assert.equal(ready.json.status, 'draining')
    const duplicate = await call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'drain', Connection: 'keep-alive' }, body: 'x' })
    assert.equal(duplicate.status, 409, 'still serving while the word spreads')
    assert.equal(duplicate.headers['connection'], 'close')
    await refused(gateway.url)
    // Connections that were accepted have half a second for their first request. The drain goes on after that.
    await sleep(LAST_HEADS_ARE_OVER_MS)
    release.resolve()
    assert.equal((await running).status, 201)
    assert.equal(await gateway.exited, 0)
  })

  test('an execution that outlasts the drain is settled as unknown and its client is told, before the exit', async (t) => {
    const witness = await startWitness(() => {})
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: FILE(witness.url, '{ delay: 0s, timeout: 500ms }') })
    const running = call(gateway.url, '/things', { headers: { 'Idempotency-Key': 'outlast' }, body: 'x' })
    await witness.reached(1)
    gateway.signal('SIGTERM')
    const answer = await running
    assert.equal(answer.status, 504)
    assert.equal(answer.json.code, 'outcome-unknown')
    assert.equal(await gateway.exited, 0)
  })

  test('connections without a request hold no process: silent, in the middle of a head, or behind a stream that began before', async (t) => {
    const release = Promise.withResolvers<void>()
    const witness = await startWitness(async (_seen, response) => {
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write('data: 1\n\n')
      await release.promise
      response.end('data: 2\n\n')
    })
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: FILE(witness.url, '{ delay: 0s, timeout: 1h }') })
    const opened = async (text: string): Promise<Socket> => {
      const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
      t.after(() => { socket.destroy() })
      socket.on('error', () => {})
      await once(socket, 'connect')
      socket.write(text)
      return socket
    }
    const [silent, head, streaming] = await Promise.all([
      opened(''),
      opened('POST /things HTTP/1.1\r\nHost: x\r\n'),
      opened('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: "s"\r\nContent-Length: 0\r\n\r\n')
    ])
    let streamed = ''
    const begun = Promise.withResolvers<void>()
    streaming.on('data', (chunk: Buffer) => { if ((streamed += chunk.toString()).includes('data: 1')) begun.resolve() })
    await begun.promise
    gateway.signal('SIGTERM')
    await Promise.all([once(silent, 'close'), once(head, 'close')])
    release.resolve()
    await once(streaming, 'close')
    assert.match(streamed, /data: 2/)
    assert.equal(await gateway.exited, 0)
  })

  test('an answer that its client is still reading is read to its end', async (t) => {
    const body = Buffer.alloc(12 * 1024 * 1024, 'x')
    const witness = await startWitness(answering(body))
    t.after(() => witness.close())
    // More than the kernel takes of it, so that most of it waits in the process.
    const keep = ', keep: { responseBytesMax: 16MiB }'
    const gateway = await startProcess(t, { config: FILE(witness.url, '{ delay: 0s, timeout: 1h }', keep) })
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    t.after(() => { socket.destroy() })
    socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: "slow"\r\nContent-Length: 0\r\n\r\n')
    await once(socket, 'readable')
    await gateway.logged((line) => line.event === 'request')
    gateway.signal('SIGTERM')
    await refused(gateway.url)
    let read = 0
    socket.on('data', (chunk: Buffer) => { read += chunk.length })
    await once(socket, 'end')
    assert.ok(read > body.length, `${read} bytes`)
    socket.end()
    assert.equal(await gateway.exited, 0)
  })

  test('a client that goes on sending behind its answer does not lose it', async (t) => {
    const body = Buffer.alloc(1024 * 1024, 'x')
    const witness = await startWitness(answering(body))
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: FILE(witness.url, '{ delay: 0s, timeout: 1h }') })
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    t.after(() => { socket.destroy() })
    socket.write('POST /things HTTP/1.1\r\nHost: x\r\nIdempotency-Key: "more"\r\nContent-Length: 0\r\n\r\n')
    await once(socket, 'readable')
    await gateway.logged((line) => line.event === 'request')
    gateway.signal('SIGTERM')
    await refused(gateway.url)
    socket.write('POST /things HTTP/1.1\r\nHost: x\r\n')
    let read = 0
    socket.on('data', (chunk: Buffer) => { read += chunk.length })
    await once(socket, 'end')
    assert.ok(read > body.length, `${read} bytes`)
    socket.end()
    assert.equal(await gateway.exited, 0)
  })

  test('a second signal ends it at once', async (t) => {
    const witness = await startWitness(() => {})
    t.after(() => witness.close())
    const gateway = await startProcess(t, { config: FILE(witness.url, '{ delay: 30s, timeout: 30s }') })
    gateway.signal('SIGTERM')
    await gateway.logged((line) => line.msg === 'draining')
    await new Promise((resolve) => setTimeout(resolve, 600))
    gateway.signal('SIGTERM')
    assert.equal(await gateway.exited, 1)
  })

  test('the embedded store survives kill -9: what was stored replays, what was under way is unknown, and nothing runs twice', async (t) => {
    const witness = await startWitness((seen, ...rest) => { if (seen.body.toString() === 'quick') void CREATED(seen, ...rest) })
    t.after(() => witness.close())
    const dataDir = join(directoryFor(t), 'store')
    const start = async () => startProcess(t, { config: FILE(witness.url, '{ delay: 0s, timeout: 1s }'), args: ['--data-dir', dataDir] })
    const ask = async (url: string, key: string, body: string) => call(url, '/things', { headers: { 'Idempotency-Key': key }, body })
    const one = await start()
    const stored = await ask(one.url, 'stored', 'quick')
    const lost = ask(one.url, 'lost', 'never').catch((error: Error) => error)
    await witness.reached(2)
    one.signal('SIGKILL')
    assert.ok(await lost instanceof Error)
    await one.exited
    const two = await start()
    const replay = await ask(two.url, 'stored', 'quick')
    assert.equal(replay.headers['idempotent-replayed'], 'true')
    assert.deepEqual(replay.body, stored.body)
    const unknown = await ask(two.url, 'lost', 'never')
    assert.equal(unknown.status, 504)
    assert.equal(unknown.json.code, 'outcome-unknown')
    assert.equal(witness.seen.length, 2)
  })
})

describe('what keeps it from starting is one sentence', () => {
  test('a data directory that another process uses: exit 1, once a drain would be over', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const dataDir = join(directoryFor(t), 'store')
    await startProcess(t, { config: FILE(witness.url, '{ delay: 0s }'), args: ['--data-dir', dataDir] })
    const { status, stderr } = serveOnce(
      ['--upstream', witness.url, '--port', '0', '--data-dir', dataDir],
      { ONCEWAY_DRAIN_DELAY: '0s', ONCEWAY_DRAIN_TIMEOUT: '0s' }
    )
    assert.equal(status, 1)
    assert.match(stderr, /^onceway: another onceway[^\n]* waiting up to \d+ s[^\n]*\nonceway: Another onceway serves from[^\n]*\n$/)
  })

  test('a port in use: exit 1', async (t) => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    t.after(() => { taken.close() })
    const { port } = taken.address() as AddressInfo
    const config = join(directoryFor(t), 'c.yaml')
    writeFileSync(config, FILE('http://127.0.0.1:1', '{ delay: 0s }').replace('port: 0', `port: ${port}`))
    const { status, stderr } = serveOnce(['--config', config, '--data-dir', join(directoryFor(t), 'store')])
    assert.equal(status, 1)
    assert.match(stderr, new RegExp(`^onceway: [^\\n]*${port}[^\\n]*in use[^\\n]*\\n$`))
  })

  test('a data directory that cannot be made: exit 1', () => {
    const { status, stderr } = serveOnce(['--upstream', 'http://127.0.0.1:1', '--port', '0', '--data-dir', '/proc/onceway'])
    assert.equal(status, 1)
    assert.match(stderr, /^onceway: [^\n]*\/proc\/onceway[^\n]*\n$/)
  })

  test('a broken configuration: exit 2, before listening', (t) => {
    const config = join(directoryFor(t), 'c.yaml')
    writeFileSync(config, FILE('http://127.0.0.1:1', '{ delya: 0s }', ', answerWithin: soon'))
    const { status, stderr } = serveOnce(['--config', config])
    assert.equal(status, 2)
    assert.match(stderr, /delya/)
    assert.match(stderr, /answerWithin/, 'all of its errors at once')
  })
})

describe('a wrong database password', needs('own postgres'), () => {
  test('is one sentence and exit 1', async (t) => {
    const postgres = await startPostgres()
    t.after(() => postgres.stop())
    const url = new URL(postgres.url)
    url.password = 'wrong-password'
    const config = join(directoryFor(t), 'c.yaml')
    writeFileSync(config, configOf({ database: url.href, redis: null, upstream: 'http://127.0.0.1:1' }))
    const { status, stderr } = serveOnce(['--config', config])
    assert.equal(status, 1)
    assert.match(stderr, /^onceway: [^\n]*password[^\n]*\n$/)
    assert.ok(!stderr.includes('wrong-password'))
  })
})
