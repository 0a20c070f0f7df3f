/** The npm package as its users get it: made by `npm pack`, installed in an empty folder, and run. */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, cpSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import { QUICKEST } from '../harness/directory.ts'
import { bareEnv } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { copyDependencies, imageEntrypoint, pack, ROOT, run } from './shipped.ts'

const NO_REGISTRY = /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENOTCACHED|ENETUNREACH|network|E40[134]/
const LISTENING = /listens on (http:\S+) +\(admin: (http:[^)]+)\)/
const QUICK = { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0' }

describe('the npm package', () => {
  let directory: string
  let made: Awaited<ReturnType<typeof pack>>
  before(async () => {
    directory = mkdtempSync(join(QUICKEST, 'onceway-package-'))
    made = await pack(directory)
  })
  after(() => { rmSync(directory, { recursive: true, force: true }) })

  const shippedFiles = (): string[] => readdirSync(made.files, { recursive: true, encoding: 'utf8' })

  test('every relative link of every page in the package leads to a file in the package', () => {
    const pages = shippedFiles().filter((name) => name.endsWith('.md'))
    assert.ok(pages.includes('README.md') && pages.length > 15)
    for (const page of pages) {
      const links = Array.from(
        readFileSync(join(made.files, page), 'utf8').matchAll(/\]\((?![a-z]+:|#)([^)#\s]+)[^)]*\)/g),
        ([, link]) => link as string
      )
      assert.deepEqual(links.filter((link) => !existsSync(join(made.files, dirname(page), link))), [], page)
    }
  })

  test('the package has what runs and what is read, and neither declarations nor maps', () => {
    const files = shippedFiles()
    for (const name of [
      'dist/main.js', 'migrations', 'schema/onceway.schema.json', 'docs/guides/deploy-with-postgres.md', 'LICENSE',
      'CHANGELOG.md', 'deploy/systemd/onceway.service', 'deploy/systemd/onceway.socket'
    ]) {
      assert.ok(files.includes(name), name)
    }
    assert.deepEqual(files.filter((name) => /\.(d\.ts|map|ts)$/.test(name)), [])
    assert.deepEqual(files.filter((name) => name.startsWith('test')), [])
  })

  test('Node is told the same by the program, its image and the scripts', () => {
    const [, options] = /^#!\/usr\/bin\/env -S node (.+)\n/.exec(readFileSync(join(made.files, 'dist/main.js'), 'utf8')) ?? []
    const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }
    assert.equal(imageEntrypoint().join(' '), `node ${options} dist/main.js`)
    assert.equal(scripts.start, `node ${options} src/main.ts serve`)
    assert.equal(scripts.onceway, `node ${options} src/main.ts`)
  })

  test('making it leaves the pages of the tree as they were', () => {
    assert.equal(existsSync(join(made.tree, '.package')), false)
    for (const page of [
      'README.md',
      ...readdirSync(join(ROOT, 'docs'), { recursive: true, encoding: 'utf8' })
        .filter((name) => name.endsWith('.md'))
        .map((name) => `docs/${name}`)
    ]) {
      assert.equal(readFileSync(join(made.tree, page), 'utf8'), readFileSync(join(ROOT, page), 'utf8'), page)
    }
  })

  describe('installed in an empty folder', () => {
    let project: string
    before(async () => { project = await installed(directory, made.tarball, made.files) })

    test('npx onceway demo shows that it works', async () => {
      const { stdout } = await npx(project, ['demo'])
      assert.match(stdout, /Requests sent by clients: 6\. Payments made: 2\./)
    })

    test('npx onceway check says what is wrong and what is right', async () => {
      writeFileSync(
        join(project, 'onceway.yaml'),
        'version: 1\nupstreams: { a: { url: "http://127.0.0.1:3000" } }\nroutes: [{ match: { path: "/*" }, upstream: a }]\n'
      )
      assert.match((await npx(project, ['check'])).stdout, /onceway\.yaml is right: 1 route,/)
      writeFileSync(
        join(project, 'wrong.yaml'),
        'version: 1\nupstreams: { a: { url: "http://127.0.0.1:3000" } }\nroutes: [{ match: { path: "/*" }, upstream: b }]\n'
      )
      await assert.rejects(npx(project, ['check', 'wrong.yaml']), { code: 2, stderr: /wrong\.yaml:3:\d+: routes\[0\]\.upstream/ })
    })

    test('npx onceway serve guards a server: a POST is executed once, and its retry is replayed', async (t) => {
      const witness = await startWitness()
      t.after(() => witness.close())
      const { url } = await listening(t, project, ['serve', '--upstream', witness.url])
      const send = async () => call(url, '/things', { headers: { 'Idempotency-Key': 'k' }, body: 'x' })
      assert.equal((await send()).status, 201)
      assert.equal((await send()).headers['idempotent-replayed'], 'true')
      assert.equal(witness.seen.length, 1)
    })

    test('its console is a page whose scripts and styles are in the package and in its dependencies', async (t) => {
      const witness = await startWitness()
      t.after(() => witness.close())
      const { adminUrl } = await listening(t, project, ['serve', '--upstream', witness.url])
      const page = await (await fetch(`${adminUrl}/`)).text()
      assert.match(page, /<h1>Overview<\/h1>/)
      const assets = Array.from(page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g), ([, path]) => path)
      assert.equal(assets.length, 6)
      for (const path of assets) {
        const asset = await fetch(`${adminUrl}${path}`)
        assert.equal(asset.status, 200, path)
        assert.ok((await asset.text()).length > 100, path)
      }
    })

    test('on an old Node it is one sentence', () => {
      const pretend = 'data:text/javascript,Object.defineProperty(process,"versions",{value:{...process.versions,node:"20.19.5"}})'
      const { status, stderr } = spawnSync(
        process.execPath,
        ['--import', pretend, join(project, 'node_modules/.bin/onceway'), 'serve'],
        { encoding: 'utf8', cwd: project }
      )
      assert.equal(status, 1)
      assert.match(stderr, /^onceway: Node\.js [\d.]+ or newer is needed; this is Node\.js 20\.19\.5 [^\n]+\n$/)
    })
  })
})

/** `npm install` of the file; where there is no registry, the same files by hand. */
async function installed (directory: string, tarball: string, files: string): Promise<string> {
  const project = join(directory, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{ "name": "project", "private": true }\n')
  try {
    await run('npm', ['install', '--prefer-offline', '--no-audit', '--no-fund', '--fetch-retries=0', tarball], { cwd: project })
  } catch (error) {
    if (!NO_REGISTRY.test((error as { stderr?: string }).stderr ?? '')) throw error
    copyDependencies(project)
    cpSync(files, join(project, 'node_modules/onceway'), { recursive: true })
    mkdirSync(join(project, 'node_modules/.bin'), { recursive: true })
    symlinkSync('../onceway/dist/main.js', join(project, 'node_modules/.bin/onceway'))
  }
  return project
}

async function npx (project: string, args: readonly string[]): Promise<{ stdout: string, stderr: string }> {
  return run('npx', ['--no-install', 'onceway', ...args], { cwd: project, env: withThisNode() })
}

/** npx starts the bin by its first line: `env node`. */
function withThisNode (): Record<string, string> {
  return { ...bareEnv(), PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}` }
}

async function listening (t: TestContext, project: string, args: readonly string[]): Promise<{ url: string, adminUrl: string }> {
  const child = spawn('npx', ['--no-install', 'onceway', ...args], {
    cwd: project,
    env: { ...withThisNode(), ...QUICK, ONCEWAY_DRAIN_DELAY: '0s' },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true
  })
  // Ctrl-C goes to the whole group, and npx does not hand on what goes to itself alone.
  const closed = once(child, 'close')
  t.after(async () => {
    process.kill(-(child.pid as number), 'SIGINT')
    await closed
  })
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url, adminUrl] = LISTENING.exec(line) ?? []
    if (url !== undefined && adminUrl !== undefined) return { url, adminUrl }
  }
  throw new Error('it ended before it listened')
}
