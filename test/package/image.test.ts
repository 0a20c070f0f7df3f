/** The image as the Dockerfile makes it, built and run: as its user, without rights, on a root file system that is read-only. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { startWitness } from '../harness/witness.ts'
import { buildImage, runToEnd, startImage } from './image.ts'
import type { Image } from './image.ts'
import { ROOT } from './shipped.ts'

const QUICK = { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0', ONCEWAY_DRAIN_DELAY: '0s' }
/** Long enough for a signal to find the request in flight. */
const SLOW_MS = 2_000
/** The base too, which is made once. It takes a minute on an idle machine. */
const BUILT_WITHIN_MS = 600_000
const OWN = ['serve', '--config', '/etc/onceway/onceway.yaml']

describe('the image', needs('buildah', 'crun', 'mmdebstrap'), () => {
  let image: Image
  before(async () => { image = await buildImage() }, { timeout: BUILT_WITHIN_MS })
  after(async () => { await image.remove() })

  test('docker run -e UPSTREAM alone: it guards, keeps its records in /data, and answers probes from outside', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const { url, adminUrl, data, exec } = await startImage(t, image, { env: { ...QUICK, UPSTREAM: witness.url } })
    const address = externalAddress()
    const at = (from: string, path: string): string => `http://${address}:${new URL(from).port}${path}`
    const post = async () => fetch(at(url, '/things'), { method: 'POST', headers: { 'Idempotency-Key': 'k' }, body: 'x' })
    assert.equal((await post()).status, 201)
    assert.equal((await post()).headers.get('idempotent-replayed'), 'true')
    assert.ok(existsSync(join(data, 'onceway.db')))
    // A kubelet names the pod's address; a probe may also bring a Host of its own.
    for (const path of ['/livez', '/readyz', '/metrics']) assert.equal((await fetch(at(adminUrl, path))).status, 200, path)
    const healthy = exec(image.config.Healthcheck.Test.slice(1), { ONCEWAY_ADMIN_PORT: new URL(adminUrl).port })
    assert.deepEqual([healthy.status, /"status":"ready"/.test(healthy.stdout)], [0, true], healthy.stderr)
    const sick = exec(image.config.Healthcheck.Test.slice(1), { ONCEWAY_ADMIN_PORT: String(await freePort()) })
    assert.equal(sick.status, 1)
  })

  test('it is not root, has no capability, gets none, and writes to /data alone', async (t) => {
    const { exec } = await startImage(t, image, { env: { ...QUICK, UPSTREAM: 'http://127.0.0.1:1' } })
    const look = `
      const { readFileSync, writeFileSync } = require('node:fs')
      const write = (path) => { try { writeFileSync(path, ''); return 'written' } catch ({ code }) { return code } }
      const status = readFileSync('/proc/1/status', 'utf8')
      const of = (name) => new RegExp('^' + name + ':\\\\s*(.*)$', 'm').exec(status)[1].split('\\t')
      console.log(JSON.stringify({
        uid: of('Uid'), gid: of('Gid'), capabilities: of('CapBnd'), more: of('NoNewPrivs'),
        writes: ['/app/x', '/tmp/x', '/etc/x', '/data/x'].map(write)
      }))`
    const { stdout, stderr } = exec(['node', '-e', look])
    const { uid, gid } = image.user
    assert.ok(uid > 0 && gid > 0)
    assert.deepEqual(JSON.parse(stdout || stderr), {
      uid: Array(4).fill(String(uid)),
      gid: Array(4).fill(String(gid)),
      capabilities: ['0000000000000000'],
      more: ['1'],
      writes: ['EROFS', 'EROFS', 'EROFS', 'written']
    })
  })

  test('docker stop drains: what is in flight is answered, the process ends with 0, and its records are there for the next one', async (t) => {
    const witness = await startWitness((_, response) => { setTimeout(() => { response.writeHead(201).end('done') }, SLOW_MS) })
    t.after(() => witness.close())
    const env = { ...QUICK, UPSTREAM: witness.url }
    const first = await startImage(t, image, { env })
    const post = async ({ url }: { readonly url: string }) =>
      fetch(`${url.replace('0.0.0.0', '127.0.0.1')}/things`, { method: 'POST', headers: { 'Idempotency-Key': 'k' }, body: 'x' })
    const inFlight = post(first)
    await eventually(() => witness.seen.length === 1, 'the request is in flight')
    first.stop()
    const answer = await inFlight
    assert.deepEqual([answer.status, await answer.text()], [201, 'done'])
    assert.equal(await first.exited, 0)
    const second = await startImage(t, image, { env, data: first.data })
    assert.equal((await post(second)).headers.get('idempotent-replayed'), 'true')
    assert.equal(witness.seen.length, 1)
  })

  describe('a file that is mounted is used, and records are where they were in an image of before', () => {
    for (const [what, words, says, counts] of [
      ['with the image\'s command they are in /data, whatever the file says', undefined, true, false],
      ['with a command of one\'s own they are where the file says', OWN, true, true],
      ['with a command of one\'s own, and a file that says nothing, they are in /data', OWN, false, false]
    ] as const) {
      test(what, async (t) => {
        const port = await freePort()
        const file = `version: 1\nlisten: { port: 0 }\nadmin: { host: 127.0.0.1, port: ${port} }\n${says ? 'dataDir: /data/kept\n' : ''}upstreams: { a: { url: "http://127.0.0.1:1" } }\nroutes: [{ name: mounted, match: { path: "/*" }, upstream: a, idempotency: { scope: public } }]\n`
        const { adminUrl, exec, output } = await startImage(t, image, { file, ...words === undefined ? {} : { words } })
        assert.equal(adminUrl, `http://127.0.0.1:${port}`, 'what the file says counts')
        await eventually(() => /^routes +mounted: /m.test(output()), output)
        assert.match(output(), new RegExp(`^stores +embedded SQLite under ${counts ? '/data/kept' : '/data'}$`, 'm'))
        assert.match(exec(image.config.Healthcheck.Test.slice(1)).stdout, /"status":"ready"/)
      })
    }
  })

  test('without UPSTREAM and without a file it says what is missing, and does not serve a toy', () => {
    const { status, stderr } = runToEnd(image)
    assert.equal(status, 2)
    assert.match(
      stderr,
      /There is nothing to guard: UPSTREAM is not set, and there is no configuration file \/etc\/onceway\/onceway\.yaml/
    )
  })

  describe('what docs/guides/deploy-in-containers.md says', () => {
    const page = readFileSync(join(ROOT, 'docs/guides/deploy-in-containers.md'), 'utf8')
    const given = (name: string): string | undefined => image.config.Env.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1)

    test('docker run gives what the image starts by, and nothing that it does not know', () => {
      const [command = ''] = /^docker run .*$/m.exec(page) ?? []
      assert.deepEqual(Array.from(command.matchAll(/-e (\w+)=/g), ([, name]) => name), ['UPSTREAM'])
      assert.ok(command.includes(`-v onceway:${given('ONCEWAY_DEFAULT_DATA_DIR')}`))
      for (const [, name = '', value = ''] of page.matchAll(/^\| `(ONCEWAY_\w+)` \(`([^`]+)`\)/gm)) assert.equal(given(name), value, name)
    })

    test('the Deployment for Kubernetes fits the image: user, volume, ports and probes', () => {
      const text = /```yaml\n(apiVersion: apps\/v1[\s\S]*?)```/.exec(page)?.[1] ?? ''
      const [document] = parseAllDocuments(text)
      // eslint-disable-next-line @typescript-eslint/no-explicit-any -- Kubernetes' own shape
      const spec = (document?.toJS() as any).spec.template.spec
      const [container] = spec.containers
      assert.equal(spec.securityContext.runAsUser, image.user.uid)
      assert.deepEqual(container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath), Object.keys(image.config.Volumes))
      assert.deepEqual(container.env.map(({ name }: { name: string }) => name), ['UPSTREAM'])
      assert.deepEqual(
        container.ports.map(({ containerPort }: { containerPort: number }) => `${containerPort}/tcp`),
        Object.keys(image.config.ExposedPorts)
      )
      for (const probe of ['livenessProbe', 'readinessProbe']) assert.equal(container[probe].httpGet.port, 'admin')
      assert.ok(spec.terminationGracePeriodSeconds > 5 + 60, 'longer than drain.delay and drain.timeout together')
    })
  })
})

/** An address that is not 127.0.0.1, by which others come: what is bound to loopback alone does not answer there. */
function externalAddress (): string {
  return Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.2'
}
