/** The image as the Dockerfile says it: its files, its command line and environment, as its user. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { parseAllDocuments } from 'yaml'
import { QUICKEST } from '../harness/directory.ts'
import { freePort } from '../harness/ports.ts'
import { startWitness } from '../harness/witness.ts'
import { asUser, externalAddress, startImage } from './image.ts'
import { layOut, readImage, ROOT, run } from './shipped.ts'

const QUICK = { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0' }

describe('the image', () => {
  const image = readImage()
  let directory: string
  let root: string
  before(() => {
    directory = mkdtempSync(join(QUICKEST, 'onceway-image-'))
    root = join(directory, 'image')
    layOut(image, root)
  })
  after(() => { rmSync(directory, { recursive: true, force: true }) })

  test('docker run -e UPSTREAM alone: it guards, keeps its records in /data, and answers probes from outside', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const { url, adminUrl } = await startImage(t, image, root, { ...QUICK, UPSTREAM: witness.url })
    const address = externalAddress()
    const at = (from: string, path: string): string => `http://${address}:${new URL(from).port}${path}`
    const post = async () => fetch(at(url, '/things'), { method: 'POST', headers: { 'Idempotency-Key': 'k' }, body: 'x' })
    assert.equal((await post()).status, 201)
    assert.equal((await post()).headers.get('idempotent-replayed'), 'true')
    assert.ok(existsSync(join(root, 'data/onceway.db')))
    // A kubelet names the pod's address; a probe may also bring a Host of its own.
    for (const path of ['/livez', '/readyz', '/metrics']) assert.equal((await fetch(at(adminUrl, path))).status, 200, path)
    const { node, spawn: user, env } = asUser(image, root)
    const healthy = await run(node, image.healthcheck.slice(1), {
      ...user,
      cwd: join(root, image.workdir),
      env: { ...env, ONCEWAY_ADMIN_PORT: new URL(adminUrl).port }
    })
    assert.match(healthy.stdout, /"status":"ready"/)
  })

  test('a file that is mounted is used as before, also by the health check', async (t) => {
    const witness = await startWitness()
    t.after(() => witness.close())
    const file = join(root, 'etc/onceway/onceway.yaml')
    const port = await freePort()
    writeFileSync(file, `version: 1\nadmin: { host: 127.0.0.1, port: ${port} }\nupstreams: { a: { url: "${witness.url}" } }\nroutes: [{ name: mounted, match: { path: "/*" }, upstream: a, idempotency: { scope: public } }]\n`)
    t.after(() => { rmSync(file) })
    const { said, adminUrl } = await startImage(t, image, root, { ONCEWAY_LISTEN_PORT: '0' })
    assert.match(said(), /routes +mounted: /)
    assert.equal(adminUrl, `http://127.0.0.1:${port}`, 'what the file says counts')
    const { node, spawn: user, env } = asUser(image, root)
    assert.match((await run(node, image.healthcheck.slice(1), { ...user, cwd: join(root, image.workdir), env })).stdout, /"status":"ready"/)
  })

  describe('an image of before was replaced: records do not move', () => {
    const text = (more: string): string => `version: 1\nlisten: { port: 0 }\nadmin: { port: 0 }\n${more}upstreams: { a: { url: "http://127.0.0.1:1" } }\nroutes: [{ match: { path: "/*" }, upstream: a }]\n`
    const OWN = ['serve', '--config', '/etc/onceway/onceway.yaml']
    for (const [what, words, says, counts] of [
      ['with the image\'s command they are in /data, whatever the file says', undefined, true, false],
      ['with a command of one\'s own they are where the file says', OWN, true, true],
      ['with a command of one\'s own, and a file that says nothing, they are in /data', OWN, false, false]
    ] as const) {
      test(what, async (t) => {
        const [file, kept] = [join(root, 'etc/onceway/onceway.yaml'), mkdtempSync(join(root, 'data/kept-'))]
        writeFileSync(file, text(says ? `dataDir: ${JSON.stringify(kept)}\n` : ''))
        t.after(() => { rmSync(file) })
        const { said } = await startImage(t, image, root, {}, words)
        assert.match(said(), new RegExp(`^stores +embedded SQLite under ${counts ? kept : join(root, 'data')}$`, 'm'))
      })
    }
  })

  test('without UPSTREAM and without a file it says what is missing, and does not serve a toy', async () => {
    const { node, argv, spawn: options, env } = asUser(image, root)
    const { status, stderr } = spawnSync(node, argv(), { ...options, encoding: 'utf8', cwd: join(root, image.workdir), env })
    assert.equal(status, 2)
    assert.match(
      stderr,
      /There is nothing to guard: UPSTREAM is not set, and there is no configuration file .*\/etc\/onceway\/onceway\.yaml/
    )
  })
})

describe('what docs/guides/deploy-in-containers.md says', () => {
  const image = readImage()
  const page = readFileSync(join(ROOT, 'docs/guides/deploy-in-containers.md'), 'utf8')

  test('docker run gives what the image starts by, and nothing that it does not know', () => {
    const [command = ''] = /^docker run .*$/m.exec(page) ?? []
    assert.deepEqual(Array.from(command.matchAll(/-e (\w+)=/g), ([, name]) => name), ['UPSTREAM'])
    assert.ok(command.includes(`-v onceway:${image.env.ONCEWAY_DEFAULT_DATA_DIR}`))
    for (const [, name = '', value = ''] of page.matchAll(/^\| `(ONCEWAY_\w+)` \(`([^`]+)`\)/gm)) assert.equal(image.env[name], value, name)
  })

  test('the Deployment for Kubernetes fits the image: user, volume, ports and probes', () => {
    const text = /```yaml\n(apiVersion: apps\/v1[\s\S]*?)```/.exec(page)?.[1] ?? ''
    const [document] = parseAllDocuments(text)
    // eslint-disable-next-line @typescript-eslint/no-explicit-any -- Kubernetes' own shape
    const spec = (document?.toJS() as any).spec.template.spec
    const [container] = spec.containers
    assert.equal(spec.securityContext.runAsUser, image.user.uid)
    assert.equal(container.volumeMounts[0].mountPath, image.env.ONCEWAY_DEFAULT_DATA_DIR)
    assert.deepEqual(container.env.map(({ name }: { name: string }) => name), ['UPSTREAM'])
    assert.deepEqual(container.ports.map(({ containerPort }: { containerPort: number }) => containerPort), image.ports)
    for (const probe of ['livenessProbe', 'readinessProbe']) assert.equal(container[probe].httpGet.port, 'admin')
    assert.ok(spec.terminationGracePeriodSeconds > 5 + 60, 'longer than drain.delay and drain.timeout together')
  })
})
