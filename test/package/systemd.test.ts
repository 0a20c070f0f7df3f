/** The units of deploy/systemd, and sockets that a service manager hands over. No systemd runs here: its tools do. */
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { inheritedSockets } from '../../src/http/inherited.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { bareEnv, MAIN } from '../harness/process-gateway.ts'
import { descendants } from '../harness/process.ts'
import { startWitness } from '../harness/witness.ts'
import { imageEntrypoint, ROOT } from './shipped.ts'

const UNITS = join(ROOT, 'deploy/systemd')
const text = (unit: string): string => readFileSync(join(UNITS, unit), 'utf8')
/** Of ten. */
const EXPOSURE_MAX = 2
const STARTED_WITHIN_MS = 60_000
const CLIENTS = 4
const RESTARTS = 2

describe('the units', needs('systemd-analyze'), () => {
  test('systemd-analyze verify has nothing to say, with the programs that are here', (t) => {
    const { path, remove } = makeDirectory('units')
    t.after(remove)
    const service = text('onceway.service')
    writeFileSync(join(path, 'onceway.service'), service.replace(/^ExecStart=\S+/m, `ExecStart=${process.execPath}`))
    writeFileSync(join(path, 'onceway.socket'), text('onceway.socket'))
    const files = ['onceway.service', 'onceway.socket'].map((name) => join(path, name))
    const { status, stdout, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', ...files], { encoding: 'utf8' })
    assert.deepEqual([status, stdout, stderr], [0, '', ''])
  })

  test('systemd-analyze security finds an exposure below 2.0', () => {
    const out = execFileSync('systemd-analyze', ['security', '--offline=true', join(UNITS, 'onceway.service')], { encoding: 'utf8' })
    const [, exposure] = /Overall exposure level for onceway\.service: ([\d.]+)/.exec(out) ?? []
    assert.ok(Number(exposure) < EXPOSURE_MAX, out)
  })

  test('Node starts as in the image, and there is time for a drain', () => {
    const [, options] = /^ExecStart=\S+node (.*) \S+main\.js serve /m.exec(text('onceway.service')) ?? []
    assert.equal(`node ${options} dist/main.js`, imageEntrypoint().join(' '))
    const [, stop] = /^TimeoutStopSec=(\d+)$/m.exec(text('onceway.service')) ?? []
    assert.ok(Number(stop) > 5 + 60, 'longer than drain.delay and drain.timeout together')
  })
})

describe('sockets that are handed over', needs('systemd-analyze'), () => {
  test('are taken by name, or in their order, and only by the process that they are for', () => {
    const of = (fds: string, names?: string, pid = '7') =>
      inheritedSockets({ LISTEN_PID: pid, LISTEN_FDS: fds, ...names === undefined ? {} : { LISTEN_FDNAMES: names } }, 7)
    assert.deepEqual(of('2', 'guarded:admin'), { guarded: 3, admin: 4 })
    assert.deepEqual(of('2', 'admin:guarded'), { guarded: 4, admin: 3 })
    assert.deepEqual(of('1', 'admin'), { guarded: null, admin: 3 })
    assert.deepEqual(of('2', 'onceway.socket:onceway.socket'), { guarded: 3, admin: 4 })
    assert.deepEqual(of('1'), { guarded: 3, admin: null })
    assert.deepEqual(of('2', 'guarded:admin', '8'), { guarded: null, admin: null })
    assert.deepEqual(inheritedSockets({}, 7), { guarded: null, admin: null })
    assert.throws(() => of('2', 'guarded:other'), /sockets named guarded, other \(FileDescriptorName=\): name one guarded/)
    assert.throws(() => of('3'), /hands over 3 sockets/)
  })

  test('are served by the gateway that the first connection starts, on both ports', async (t) => {
    const { url, adminUrl } = await activated(t, ['--fdname=guarded:admin'], (main) => main)
    assert.equal(await post(url, 'k'), 201)
    assert.equal((await fetch(`${adminUrl}/readyz`)).status, 200)
  })

  test('a restart loses no connection: clients that connect meanwhile wait, and are answered', async (t) => {
    // A shell keeps the sockets, as systemd does, and starts the gateway again when it has ended well.
    const { url, pid } = await activated(t, [], (main) =>
      ['sh', '-c', 'while sh -c \'LISTEN_PID=$$ exec "$@"\' gateway "$@"; do :; done', 'keeper', ...main])
    const statuses: Array<number | string> = []
    const load = { over: false }
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      for (let turn = 0; !load.over; turn++) statuses.push(await post(url, `${client}-${turn}`))
    })
    const gateway = (): number | undefined => descendants(pid).find((each) => /^(?!sh ).*src\/main\.ts/.test(commandOf(each)))
    for (let turn = 0; turn < RESTARTS; turn++) {
      const [before, answered] = [gateway(), statuses.length]
      assert.ok(before !== undefined)
      process.kill(before, 'SIGTERM')
      await eventually(() => gateway() !== before && statuses.length > answered + 2 * CLIENTS, 'the next one answers', STARTED_WITHIN_MS)
    }
    load.over = true
    await Promise.all(clients)
    assert.deepEqual(statuses.filter((status) => status !== 201), [])
  })

  test('the guarded one cannot be shared by workers: that is said, and nothing starts', async (t) => {
    const { child, url } = await socketActivate(t, [], (main) => [...main, '--workers', '2'], { DATABASE_URL: 'postgres://127.0.0.1:1/x' })
    const ended = once(child, 'exit')
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => { said += chunk.toString() })
    await post(url, 'k')
    assert.equal((await ended)[0], 2)
    assert.match(said, /hands over the guarded port, and several workers cannot share it: set workers: 1/)
  })

  test('a Unix socket is refused with a sentence', async (t) => {
    const directory = makeDirectory('activated')
    t.after(() => { directory.remove() })
    const path = join(directory.path, 'onceway.sock')
    const main = [process.execPath, MAIN, 'serve', '--upstream', 'http://127.0.0.1:1', '--data-dir', join(directory.path, 'store')]
    const child = spawn('systemd-socket-activate', ['-l', path, ...main], { stdio: ['ignore', 'ignore', 'pipe'] })
    t.after(() => { child.kill('SIGKILL') })
    const ended = once(child, 'exit')
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => { said += chunk.toString() })
    await eventually(() => said.includes('Listening on'), () => said, STARTED_WITHIN_MS)
    const client = connect(path)
    client.on('error', () => {})
    t.after(() => { client.destroy() })
    assert.equal((await ended)[0], 2, said)
    assert.match(said, /onceway: the guarded listener cannot use the socket .* it is a Unix socket\. Give ListenStream= a port\./)
    assert.doesNotMatch(said, /^ +at /m)
  })
})

function commandOf (pid: number): string {
  try { return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ') } catch { return '' }
}

/** A connection of its own for each. The status, or why there is none. */
async function post (url: string, key: string): Promise<number | string> {
  return new Promise((resolve) => {
    const headers = { 'Idempotency-Key': key, 'Content-Length': '1' }
    const asked = request(`${url}/things`, { method: 'POST', agent: false, headers }, (response) => {
      response.resume().on('end', () => { resolve(response.statusCode ?? 0) })
    })
    asked.on('error', (error: NodeJS.ErrnoException) => { resolve(error.code ?? error.message) })
    asked.end('x')
  })
}

/** systemd-socket-activate starts the command at the first connection, in its own process. */
async function socketActivate (
  t: TestContext,
  options: readonly string[],
  command: (main: readonly string[]) => readonly string[],
  env: Readonly<Record<string, string>> = {}
) {
  const witness = await startWitness()
  const directory = makeDirectory('activated')
  const [port, adminPort] = [await freePort(), await freePort()]
  const main = [process.execPath, MAIN, 'serve', '--upstream', witness.url, '--data-dir', join(directory.path, 'store')]
  const all = { ...bareEnv(), ONCEWAY_DRAIN_DELAY: '0s', ...env }
  const child = spawn('systemd-socket-activate', [
    ...[port, adminPort].flatMap((each) => ['-l', `127.0.0.1:${each}`]), ...options,
    ...Object.entries(all).flatMap(([name, value]) => ['-E', `${name}=${value}`]), ...command(main)
  ], { env: all, stdio: ['ignore', 'ignore', 'pipe'] })
  t.after(async () => {
    const pid = child.pid as number
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : null
    for (const each of [pid, ...descendants(pid)]) try { process.kill(each, 'SIGKILL') } catch {}
    await ended
    await witness.close()
    directory.remove()
  })
  const listens = `Listening on 127.0.0.1:${adminPort}`
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => { said += chunk.toString() })
  await eventually(() => said.includes(listens), () => said, STARTED_WITHIN_MS)
  return { child, pid: child.pid as number, url: `http://127.0.0.1:${port}`, adminUrl: `http://127.0.0.1:${adminPort}` }
}

/** Resolves when the gateway behind the sockets has answered. */
async function activated (...[t, options, command]: Parameters<typeof socketActivate>) {
  const world = await socketActivate(t, options, command)
  assert.equal(await post(world.url, 'first'), 201)
  return world
}
