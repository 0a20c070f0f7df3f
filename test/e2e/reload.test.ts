/** SIGHUP: which configuration a request meets, what is refused, and that the signal never ends the process. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, writeSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import { bareEnv, MAIN, startProcess } from '../harness/process-gateway.ts'
import { slow } from '../harness/slow.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { fileOf, reloads, startReloadable } from './reload-world.ts'

const HOUR_MS = 3_600_000
/** What a busy machine may take for what takes a second. */
const NOTICED_WITHIN_MS = 20_000

async function ask (url: string, key: string): Promise<Called> {
  return call(url, '/things', { headers: { 'Idempotency-Key': key }, body: 'same' })
}

async function twoWitnesses (t: TestContext, first = CREATED, second = CREATED): Promise<[Witness, Witness]> {
  const witnesses = await Promise.all([startWitness(first), startWitness(second)])
  t.after(async () => { await Promise.all(witnesses.map(async (witness) => witness.close())) })
  return witnesses
}

/** How long from now the client was told that the answer is remembered, in whole hours. */
function rememberedHours ({ headers }: Called): number {
  return Math.round((Date.parse(String(headers['idempotency-expires'])) - Date.now()) / HOUR_MS)
}

describe('which configuration a request meets', () => {
  test('what is under way ends as it began: upstream, headers, retention; what comes after the reload meets the new one', async (t) => {
    const { answer, open: release } = slow()
    const connections = new Set<unknown>()
    const [one, two] = await twoWitnesses(t, answer, async (seen, response, socket, count) => {
      connections.add(socket)
      await CREATED(seen, response, socket, count)
    })
    const gateway = await startReloadable(t, fileOf({ upstream: one.url, idempotency: ', retention: 2h' }))
    const running = ask(gateway.url, 'before')
    const passing = call(gateway.url, '/read', { method: 'GET' })
    await one.reached(2)
    const line = await gateway.reload(fileOf({
      upstream: two.url,
      idempotency: ', retention: 5h, forwardKey: false',
      upstreamMore: ', requestHeaders: { X-New: "yes" }'
    }))
    assert.deepEqual(line['changed'], ['upstreams.witness', 'routes.things'])
    const after = await ask(gateway.url, 'after')
    assert.equal(rememberedHours(after), 5)
    assert.deepEqual([two.seen[0]?.headers['idempotency-key'], two.seen[0]?.headers['x-new']], [undefined, 'yes'])
    assert.equal((await ask(gateway.url, 'later')).status, 201)
    assert.equal(connections.size, 1, 'its connections are kept')
    const duplicate = await ask(gateway.url, 'before')
    assert.equal(duplicate.status, 409, 'it is the same execution still')
    release()
    const before = await running
    assert.deepEqual([before.status, before.headers['idempotency-status'], rememberedHours(before)], [201, 'executed', 2])
    assert.equal((await passing).status, 201, 'and so does what passes through')
    assert.deepEqual([one.seen.length, two.seen.length], [2, 2])
    const replay = await ask(gateway.url, 'before')
    assert.deepEqual([replay.headers['idempotent-replayed'], replay.text], ['true', before.text])
  })

  test('a request that was let in before the reload and is whole after it is sent where it was let in for', async (t) => {
    const [one, two] = await twoWitnesses(t)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    const upload = request(`${gateway.url}/things`, {
      method: 'POST',
      agent: false,
      headers: { 'Idempotency-Key': 'half', 'Content-Length': '4', Expect: '100-continue' }
    })
    const answered = once(upload, 'response') as Promise<[IncomingMessage]>
    upload.flushHeaders()
    await once(upload, 'continue')
    await gateway.reload(fileOf({ upstream: two.url }))
    upload.end('body')
    const [response] = await answered
    response.resume()
    assert.equal(response.statusCode, 201)
    assert.deepEqual([one.seen.length, two.seen.length], [1, 0])
  })

  test('limits, problem URIs, trusted proxies and the drain count from the reload on', async (t) => {
    const { answer, open: release } = slow()
    const [one] = await twoWitnesses(t, answer)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    const first = ask(gateway.url, 'first')
    await one.reached(1)
    const more = 'limits: { executions: 1 }\nproblemBaseUri: "https://example.com/problems/"\ntrustProxies: [127.0.0.1]'
    const line = await gateway.reload(fileOf({ upstream: one.url, more }).replace('timeout: 5s', 'timeout: 4s'))
    assert.deepEqual(line['changed'], ['problemBaseUri', 'trustProxies', 'limits.executions', 'drain.timeout'])
    const refused = await ask(gateway.url, 'second')
    assert.deepEqual([refused.status, refused.json.type], [503, 'https://example.com/problems/overloaded'])
    release()
    await first
    await call(gateway.url, '/read', { method: 'GET', headers: { 'X-Forwarded-For': '192.0.2.7' } })
    assert.match(String(one.seen.at(-1)?.headers['x-forwarded-for']), /^192\.0\.2\.7, /)
    gateway.signal('SIGTERM')
    assert.equal((await gateway.logged(({ msg }) => msg === 'draining'))['timeoutMs'], 4_000)
  })

  test('the level of the log counts from the reload on', async (t) => {
    const [one] = await twoWitnesses(t)
    const file = (level: string): string => fileOf({ upstream: one.url, more: `log: { level: ${level} }` })
    const gateway = await startReloadable(t, file('info'))
    await ask(gateway.url, 'told')
    await gateway.reloadQuietly(file('error'), 'ok')
    await ask(gateway.url, 'silent')
    await gateway.reload(file('info'))
    await ask(gateway.url, 'told')
    await gateway.logged(({ outcome }) => outcome === 'replayed')
    assert.equal(gateway.logLines().filter(({ outcome }) => outcome === 'executed').length, 1)
  })

  test('of several signals in a row the last file wins', async (t) => {
    const [one] = await twoWitnesses(t)
    const file = (number: number): string => fileOf({ upstream: one.url, upstreamMore: `, requestHeaders: { X-Number: "${number}" }` })
    const gateway = await startReloadable(t, file(0))
    for (let number = 1; number <= 5; number++) {
      await writeFile(gateway.file, file(number))
      gateway.signal('SIGHUP')
    }
    await eventually(async () => {
      await call(gateway.url, '/read', { method: 'GET' })
      return one.seen.at(-1)?.headers['x-number'] === '5'
    }, 'the fifth counts', NOTICED_WITHIN_MS)
    await gateway.reload()
    assert.deepEqual((await gateway.reload())['changed'], [], 'and nothing came after it')
  })

  test('a key set in a file is read again', async (t) => {
    const [one] = await twoWitnesses(t)
    const directory = makeDirectory('reload-keys')
    t.after(() => { directory.remove() })
    const jwks = join(directory.path, 'jwks.json')
    const signer = async (): Promise<string> => {
      const { publicKey, privateKey } = await generateKeyPair('ES256')
      await writeFile(jwks, JSON.stringify({ keys: [{ ...await exportJWK(publicKey), kid: 'one', alg: 'ES256' }] }))
      return new SignJWT({}).setProtectedHeader({ alg: 'ES256', kid: 'one' }).setSubject('alice').setExpirationTime('5m').sign(privateKey)
    }
    const old = await signer()
    const file = fileOf({ upstream: one.url }).replace('scope: public', `scope: ["jwt:sub"], jwt: { jwks: "${jwks}" }`)
    const gateway = await startReloadable(t, file)
    const status = async (key: string, token: string): Promise<number> =>
      (await call(gateway.url, '/things', { headers: { 'Idempotency-Key': key, Authorization: `Bearer ${token}` } })).status
    assert.equal(await status('one', old), 201)
    const rotated = await signer()
    await gateway.reload()
    assert.deepEqual([await status('two', old), await status('three', rotated)], [401, 201])
    await gateway.logged(({ outcome, reason }) => outcome === 'token-invalid' && reason === 'TOKEN_BAD_SIGNATURE')
  })

  test('records that retries no longer find are named in a warning', async (t) => {
    const [one] = await twoWitnesses(t)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    await gateway.reload(fileOf({ upstream: one.url }).replace('name: things', 'name: stuff'))
    const { level } = await gateway.logged(({ msg }) => /Records of route things: .*called stuff now/.test(msg ?? ''))
    assert.equal(level, 'warn')
  })
})

describe('while the database is away', needs('own postgres'), () => {
  test('a reload is taken; a readiness that has become strict counts at the next probe', async (t) => {
    const postgres = await startPostgres()
    t.after(() => postgres.stop())
    const [one] = await twoWitnesses(t)
    const stores = `stores: { postgres: { url: "${postgres.url}" } }`
    const file = (readiness: string): string =>
      fileOf({ upstream: one.url, more: stores }).replace('admin: { ', `admin: { readiness: ${readiness}, `)
    const gateway = await startReloadable(t, file('lenient'))
    const ready = async (): Promise<[number, string]> => {
      const { status, json } = await call(gateway.adminUrl, '/readyz', { method: 'GET' })
      return [status, json.status]
    }
    assert.equal((await ask(gateway.url, 'k')).status, 201)
    await postgres.stop()
    await eventually(async () => (await ready())[1] === 'degraded', 'the loss is noticed', NOTICED_WITHIN_MS)
    assert.deepEqual(await ready(), [200, 'degraded'])
    await gateway.reload(file('strict'))
    assert.deepEqual(await ready(), [503, 'degraded'])
  })
})

describe('what is refused', () => {
  test('a wrong file: every mistake is logged as check prints it, and the old one serves', async (t) => {
    const [one, two] = await twoWitnesses(t)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    const wrong = fileOf({ upstream: two.url, idempotency: ', answerWithin: soon', more: 'limts: {}' })
    const line = await gateway.reload(wrong)
    assert.equal(line.level, 'error')
    const checked = spawnSync(process.execPath, [MAIN, 'check', '--config', gateway.file], { encoding: 'utf8', env: bareEnv() })
    assert.deepEqual(line['mistakes'], checked.stderr.trim().split('\n').slice(0, -1))
    assert.equal((line['mistakes'] as string[]).length, 2)
    assert.equal((await ask(gateway.url, 'k')).status, 201)
    assert.deepEqual([one.seen.length, two.seen.length], [1, 0])
    assert.deepEqual([await reloads(gateway, 'ok'), await reloads(gateway, 'refused')], [0, 1])
    await gateway.reload(fileOf({ upstream: two.url }))
    assert.equal((await ask(gateway.url, 'l')).status, 201)
    assert.equal(two.seen.length, 1, 'and once it is mended it is taken')
  })

  test('a file that is gone, or no YAML at all', async (t) => {
    const [one] = await twoWitnesses(t)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    assert.match(String((await gateway.reload('routes: ['))['mistakes']), /onceway\.yaml:\d+:\d+/)
    await rm(gateway.file)
    gateway.signal('SIGHUP')
    await gateway.logged((line) => /There is no configuration file/.test(String(line['mistakes'])))
    assert.equal((await ask(gateway.url, 'k')).status, 201)
  })

  test('a change that needs a restart refuses the whole file, with one sentence for each setting', async (t) => {
    const [one, two] = await twoWitnesses(t)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    const file = fileOf({
      upstream: two.url,
      listen: '{ host: 127.0.0.1, port: 1 }',
      more: 'stores: { postgres: { url: "postgres://app:secret@db/app" } }'
    })
    const line = await gateway.reload(file.replace('lease: 5s', 'lease: 4s'))
    assert.equal(line.level, 'error')
    const mistakes = line['mistakes'] as string[]
    assert.deepEqual(mistakes.map((sentence) => sentence.split(' ')[0]), [
      'listen.port',
      'stores.postgres',
      'routes.things.idempotency.lease'
    ])
    for (const sentence of mistakes) assert.match(sentence, /start it again/)
    assert.ok(!gateway.output().includes('secret'))
    assert.equal((await ask(gateway.url, 'k')).status, 201)
    assert.deepEqual([one.seen.length, two.seen.length], [1, 0])
  })
})

/** Writes into a pipe when somebody waits to read it; `first`: while he waits. */
async function whileRead (pipe: string, text: string, first = (): void => {}): Promise<void> {
  let end: number | null = null
  await eventually(() => {
    try {
      end = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
    } catch (error) {
      // Nobody reads.
      if ((error as NodeJS.ErrnoException).code !== 'ENXIO') throw error
    }
    return end !== null
  }, 'the file is read', NOTICED_WITHIN_MS)
  first()
  writeSync(end ?? -1, text)
  closeSync(end ?? -1)
}

describe('the signal never ends the process', () => {
  test('without a file it is logged', async (t) => {
    const [one] = await twoWitnesses(t)
    const gateway = await startProcess(t, { args: ['--upstream', one.url, '--port', '0'], env: { ONCEWAY_ADMIN_PORT: '0' } })
    gateway.signal('SIGHUP')
    await gateway.logged(({ msg }) => /no file to reload/.test(msg ?? ''))
    assert.equal((await call(gateway.url, '/read', { method: 'GET' })).status, 201)
  })

  test('while draining nothing is reloaded, and the drain goes on', async (t) => {
    const { answer, open: release } = slow()
    const [one, two] = await twoWitnesses(t, answer)
    const gateway = await startReloadable(t, fileOf({ upstream: one.url }))
    const running = ask(gateway.url, 'k')
    await one.reached(1)
    gateway.signal('SIGTERM')
    await gateway.logged(({ msg }) => msg === 'draining')
    await writeFile(gateway.file, fileOf({ upstream: two.url }))
    gateway.signal('SIGHUP')
    await gateway.logged(({ msg }) => /draining; nothing is reloaded/.test(msg ?? ''))
    release()
    assert.equal((await running).status, 201)
    assert.equal(await gateway.exited, 0)
  })

  test('while it starts, the reload waits until it has started', async (t) => {
    const [one, two] = await twoWitnesses(t)
    const directory = makeDirectory('reload-start')
    const file = join(directory.path, 'onceway.yaml')
    // Reading a pipe waits for a writer: the process is held where it reads its configuration.
    assert.equal(spawnSync('mkfifo', [file]).status, 0)
    const child = spawn(
      process.execPath,
      [MAIN, 'serve', '--config', file, '--data-dir', join(directory.path, 'store')],
      { stdio: ['ignore', 'pipe', 'inherit'], env: bareEnv() }
    )
    const ended = once(child, 'exit')
    t.after(async () => { child.kill('SIGKILL'); await ended; directory.remove() })
    let output = ''
    const said = Promise.withResolvers<void>()
    child.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (output.includes('"configuration reloaded"')) said.resolve()
    })
    await whileRead(file, fileOf({ upstream: one.url }), () => { child.kill('SIGHUP') })
    // Not before it has read the first: the second would be its end.
    await eventually(() => output.includes('listens on'), () => output, NOTICED_WITHIN_MS)
    await whileRead(file, fileOf({ upstream: two.url }))
    await Promise.race([said.promise, ended.then(([code, signal]) => { throw new Error(`ended with ${code ?? signal}:\n${output}`) })])
    const [, url = ''] = /listens on (http:\S+)/.exec(output) ?? []
    assert.equal((await ask(url, 'k')).status, 201)
    assert.deepEqual([one.seen.length, two.seen.length], [0, 1])
  })
})
