/** What can hold a secret says so in the schema, and is shown nowhere: not printed, not in a mistake, not at a start. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stringify } from 'yaml'
import { banner } from '../../src/process/banner.ts'
import { masked } from '../../src/config/read/mask.ts'
import { printConfig } from '../../src/config/print.ts'
import { ConfigInvalid, problemLine } from '../../src/config/read/problem.ts'
import type { Path } from '../../src/config/read/problem.ts'
import { ConfigSchema } from '../../src/config/schema.ts'
import type { SchemaNode } from '../../src/config/read/schema-words.ts'
import { putAt, valueAt } from '../../src/config/read/tree.ts'
import { say } from '../cli/world.ts'
import { ConfigWorld, fileWith } from './world.ts'

const CANARY = 'hunter2canary'
const ROOT = ConfigSchema as unknown as SchemaNode

interface Field { readonly path: Path, readonly node: SchemaNode, readonly parent: SchemaNode | null }

/** Every field that a file can have, with those of every branch of a union; one item of each list, one member of each map. */
function fields (node: SchemaNode = ROOT, path: Path = [], parent: SchemaNode | null = null): Field[] {
  return [
    { path, node, parent },
    ...(node.anyOf ?? []).flatMap((branch) =>
      fields(branch, path, parent).slice(branch.properties === undefined && branch.items === undefined ? 0 : 1)),
    ...Object.entries(node.properties ?? {}).flatMap(([name, child]) => fields(child, [...path, name], node)),
    ...Object.values(node.patternProperties ?? {}).flatMap((child) =>
      fields(child, [...path, path.join() === 'upstreams' ? 'payments' : 'X-Any'], node)),
    ...(node.items === undefined ? [] : fields(node.items, [...path, 0], node))
  ]
}

const MARKED = fields().filter(({ node }) => node.mask !== undefined)

/** As putAt, and makes lists too. false: something else is in the way. */
function put (tree: unknown, path: Path, value: unknown): boolean {
  path.forEach((part, index) => {
    if (part === 0 && valueAt(tree, path.slice(0, index)) === undefined) putAt(tree, path.slice(0, index), [])
  })
  return putAt(tree, path, value)
}

/** A value of this field, with the canary wherever a secret can be. */
function secretFor ({ node, path }: Field): string {
  switch (node.mask) {
    case 'url':
      return path.includes('jwks')
        ? `https://${CANARY}@h/jwks?key=${CANARY}`
        : `postgres://u:${CANARY}@h/db?sslpassword=${CANARY}&sslmode=require#${CANARY}`
    case 'template': return `${CANARY} {key} ${CANARY}`
    case 'query': return `/v1?reference={key}&api_key=${CANARY}`
    default: return `${CANARY}, which is long enough to be a secret`
  }
}

test('every field whose name sounds like a secret, every URL, every twin of a file and every free map of texts is marked', () => {
  /** Public by what they are: part of every problem; names of header fields. */
  const plain = new Set([
    'problemBaseUri',
    'routes.0.idempotency.verify.hmac.header',
    'routes.0.idempotency.inbox.verify.hmac.header',
    'upstreams.payments.applicationHeader',
    'routes.0.idempotency.keep.headers.drop.0',
    'routes.0.idempotency.keep.headers.keep.0',
    'routes.0.idempotency.fingerprint.headers.0'
  ])
  const unmarked = fields().filter(({ node, path, parent }) => {
    const name = String(path.at(-1))
    const words = `${String(path.at(-2))} ${name}`
    const isText = node.type === 'string' && node.mask === undefined
    const sounds = /secret|password|passphrase|token|credential|auth|private|\b(ca|cert|key)$|url|uri|dsn|header/i.test(words) &&
      !/File$/.test(name) &&
      !/^(from|store|window|syntax|issued|id|timeout|tolerance|scheme)$/.test(name) &&
      node.pattern === undefined
    const isTwin = parent?.properties?.[`${name}File`] !== undefined
    return isText && (sounds || isTwin || parent?.patternProperties !== undefined) && !plain.has(path.join('.'))
  })
  assert.deepEqual(unmarked.map(({ path }) => path.join('.')), [])
  assert.ok(MARKED.length > 25, String(MARKED.length))
})

test('check --print shows no secret of any field', (t) => {
  const { effective } = new ConfigWorld(t).load(fileWith())
  const shown = structuredClone(effective)
  for (const field of MARKED) put(shown, field.path, secretFor(field))
  for (const { path } of MARKED) assert.notEqual(valueAt(shown, path), undefined, path.join('.'))
  const text = printConfig(shown)
  assert.ok(!text.includes(CANARY), text.split('\n').filter((line) => line.includes(CANARY)).join('\n'))
  for (const kept of [
    'X-Any: "***"', 'X-Any: "***{key}***"', 'path: /v1?reference={key}&api_key=***', 'jwks: https://***@h/jwks?key=***',
    'sslmode=require'
  ]) {
    assert.ok(text.includes(kept), kept)
  }
})

test('a URL shows where it leads and not as whom', () => {
  const shown = (text: string): string => masked(text, 'url')
  assert.deepEqual(
    ['./jwks.json', 'host:6379', 'redis://:a@h:6380/0', 'a@h', 'x://[', 'https://a:b@h/', 'htps://a@h/', 'postgres://u@h/db'].map(shown),
    ['./jwks.json', 'host:6379', 'redis://:***@h:6380/0', '***', '***', 'https://***:***@h/', 'htps://***@h/', 'postgres://u@h/db']
  )
})

/** Everything that is said of a file with this tree: its mistakes, or the start's words. */
function saidOf (world: ConfigWorld, text: string): string {
  try {
    const { config, effective } = world.load(text)
    return [...banner(config, ['sqlite'], 'http://a', 'http://b'), ...config.warnings, printConfig(effective)].join('\n')
  } catch (error) {
    if (!(error instanceof ConfigInvalid)) throw error
    return error.problems.map(problemLine).join('\n')
  }
}

test('no secret is in a mistake or at a start, whatever it is, and wherever it was written by mistake', (t) => {
  const world = new ConfigWorld(t)
  const { effective } = world.load(fileWith())
  for (const field of MARKED) {
    // A word alone is the name of a file or a host there, and those are named.
    const isName = field.node.mask === 'url' && field.path.at(-1) !== 'url'
    const written = [secretFor(field), ...(isName ? [] : [CANARY]), [CANARY], { [`a:${CANARY}`]: null }, { a: CANARY }]
    const places: Array<[path: Path, value: unknown]> = written.map((value) => [field.path, value])
    // A level too high, and with the space forgotten.
    for (let length = 1; length < field.path.length; length++) places.push([field.path.slice(0, length), CANARY])
    places.push([[...field.path.slice(0, -1), `${String(field.path.at(-1))}:${CANARY}`], null])
    for (const [path, value] of places) {
      const tree = structuredClone(effective)
      if (!put(tree, path, value)) continue
      const said = saidOf(world, stringify(tree))
      assert.ok(!said.includes(CANARY), `${path.join('.')}: ${said}`)
    }
  }
})

test('no secret that begins as YAML has it for itself is in what is said of it', (t) => {
  const world = new ConfigWorld(t)
  for (const written of [
    `!${CANARY}`, `*${CANARY}`, `&${CANARY}`, `|${CANARY}`, `>${CANARY}`, `"${CANARY}" x`, `"a" ${CANARY}`,
    `'${CANARY}`, `${CANARY}: b: c`, `@${CANARY}`, `%${CANARY}`, `[${CANARY}`, `{${CANARY}`, `"\\q${CANARY}"`,
    `!<${CANARY}> a`, `!e!${CANARY} a`, `- ${CANARY}`
  ]) {
    const said = saidOf(world, fileWith({ rest: `secret: ${written}` }))
    assert.ok(!said.includes(CANARY), `${written}: ${said}`)
  }
})

test('no secret from the environment is in a mistake, in what check says, or printed', async (t) => {
  const world = new ConfigWorld(t)
  // eslint-disable-next-line no-template-curly-in-string -- the file's
  const file = world.write('onceway.yaml', fileWith({ policy: '{ scope: "jwt:sub", jwt: { jwks: "https://h/jwks?k=${K}" } }' }))
  const sound = {
    K: CANARY,
    ONCEWAY_SECRET: `${CANARY} and more, so that it is long`,
    ONCEWAY_ADMIN_TOKEN: `${CANARY}-and-more`,
    ONCEWAY_DATABASE_URL: `postgres://u:${CANARY}@h/db`,
    ONCEWAY_REDIS_URL: `redis://:${CANARY}@h`
  }
  const wrong = {
    ...sound,
    ONCEWAY_SECRET: CANARY,
    ONCEWAY_ADMIN_TOKEN: CANARY,
    ONCEWAY_DATABASE_URL: CANARY,
    ONCEWAY_REDIS_URL: `http://${CANARY}`,
    ONCEWAY_UPSTREAMS_PAYMENTS_URL: `http://u:${CANARY}@h`
  }
  for (const [env, exitCode] of [[sound, 0], [wrong, 2]] as const) {
    const said = await say(['check', '--config', file, '--print'], env)
    assert.equal(said.exitCode, exitCode, said.err)
    assert.ok(!`${said.out}${said.err}`.includes(CANARY), `${said.out}${said.err}`)
  }
})
