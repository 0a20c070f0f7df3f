/** What `npm ci` and an image bring: all of it in the lock file with its integrity, and no script of a package runs unasked. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { Validation } from '@cyclonedx/cyclonedx-library'
import type { Spec } from '@cyclonedx/cyclonedx-library'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const text = (file: string): string => readFileSync(`${ROOT}${file}`, 'utf8')
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- npm's own files
const json = (file: string): any => JSON.parse(text(file)) as unknown

interface Locked {
  readonly version?: string
  readonly integrity?: string
  readonly hasInstallScript?: true
  readonly link?: true
  readonly dev?: true
  readonly bin?: object
}
const packages = Object.entries(json('package-lock.json').packages as Record<string, Locked>)
  .filter(([path, { link }]) => path.includes('node_modules/') && link !== true)
  .map(([path, locked]) => ({ name: path.replace(/^.*node_modules\//, ''), ...locked }))

test('every package stands in the lock file with its integrity', () => {
  assert.ok(packages.length > 100)
  assert.deepEqual(packages.filter(({ integrity = '' }) => !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity)).map(({ name }) => name), [])
})

test('a package whose scripts run when it is installed is allowed by name', () => {
  const allowed = json('package.json').allowScripts as Record<string, boolean>
  assert.deepEqual(
    packages.filter(({ name, hasInstallScript }) => hasInstallScript === true && allowed[name] !== true).map(({ name }) => name),
    []
  )
  assert.match(text('.npmrc'), /^strict-allow-scripts=true$/m)
})

test('the Node of npm ci is of the lock file, for each platform that has one', () => {
  const platforms = json('tools/node/package.json').optionalDependencies as Record<string, string>
  assert.deepEqual(
    Object.entries(platforms).filter(([name, version]) => !packages.some((locked) => locked.name === name && locked.version === version)),
    []
  )
  assert.equal(json('package.json').devDependencies.node, 'file:tools/node')
  assert.equal(
    execFileSync(`${ROOT}node_modules/.bin/node`, ['--version'], { encoding: 'utf8' }).trim(),
    `v${platforms[`node-${process.platform}-${process.arch}`]}`
  )
})

test('both stages of the image stand on the one base that a release pins', () => {
  const stages = Array.from(text('Dockerfile').matchAll(/^FROM (\S+)/gm), ([, base]) => base)
  assert.deepEqual(stages, ['${BASE}', '${BASE}']) // eslint-disable-line no-template-curly-in-string -- the Dockerfile's
  assert.match(text('Dockerfile'), /^ARG BASE=\S+$/m)
})

test('npm run sbom lists what runs, all of it and nothing else, as CycloneDX has it', async () => {
  const listed = execFileSync(process.execPath, [`${ROOT}scripts/sbom.ts`], { encoding: 'utf8' })
  const bom = JSON.parse(listed) as {
    readonly specVersion: Spec.Version
    readonly metadata: { readonly component: { readonly name: string } }
    readonly components: ReadonlyArray<{ readonly name: string, readonly version: string, readonly hashes?: unknown }>
  }
  assert.equal(await new Validation.JsonStrictValidator(bom.specVersion).validate(listed), null)
  const spoiled = JSON.stringify({ ...bom, components: [{ name: 'without a type' }] })
  assert.notEqual(await new Validation.JsonStrictValidator(bom.specVersion).validate(spoiled), null)
  const runs = packages.filter(({ dev }) => dev !== true)
  assert.equal(bom.metadata.component.name, 'onceway')
  assert.deepEqual(
    bom.components.map(({ name, version }) => `${name}@${version}`).sort(),
    Array.from(new Set(runs.map(({ name, version }) => `${name}@${version}`))).sort()
  )
  assert.ok(bom.components.every(({ hashes }) => hashes !== undefined))
})
