/** `onceway ids` on the embedded store, and what finds records and messages by their key whichever scheme made its hash. */
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { schemeName, secretFingerprint } from '../../src/core/record/schemes.ts'
import { makeSecret } from '../../src/store/sqlite/secret.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { directory, keyedIn, say, SECRETS } from './world.ts'
import type { Said } from './world.ts'

const WHY = ['--who', 'ada', '--why', 'release 2 is everywhere']
const [OLD, NEW] = SECRETS

interface Store {
  readonly dataDir: string
  readonly secret: string
  readonly ids: (words: readonly string[], env?: Readonly<Record<string, string>>) => Promise<Said>
  readonly upgrade: (words?: readonly string[], env?: Readonly<Record<string, string>>) => Promise<Said>
  readonly shown: (env?: Readonly<Record<string, string>>) => Promise<string[]>
  /** By a gateway that has ended since; the first that serves chooses `scheme`. */
  readonly served: (work?: (store: Awaited<ReturnType<typeof openSqlite>>) => Promise<unknown>, scheme?: string) => Promise<void>
}

function storeOf (t: TestContext): Store {
  const dataDir = directory(t)
  const ids: Store['ids'] = async (words, env = {}) => say(['ids', ...words, '--data-dir', dataDir], env)
  return {
    dataDir,
    secret: join(dataDir, 'secret'),
    ids,
    upgrade: async (words = [], env = {}) => ids(['upgrade', ...WHY, ...words], env),
    shown: async (env = {}) => (await ids([], env)).out.split('\n'),
    served: async (work = async () => {}, scheme = '1') => {
      const store = await openSqlite({ dataDir, exclusive: true, scheme })
      try {
        await work(store)
      } finally {
        await store.close()
      }
    }
  }
}

const nameOfFile = (file: string): string => schemeName(2, Buffer.from(readFileSync(file, 'utf8').trim(), 'base64url'))

test('a store of the release before is upgraded with a secret that is made beside it, when somebody says --yes', async (t) => {
  const { served, upgrade, shown, secret } = storeOf(t)
  await served(async (store) => keyedIn(store, 'order-1', null, 1))
  assert.deepEqual(await shown(), ['ids are made by  1', 'this file makes  2, 1'])
  const planned = await upgrade()
  assert.deepEqual(
    [planned.exitCode, planned.out.split('\n')],
    [
      1,
      [
        `Ids would be made by the scheme 2, with a secret that is made in ${secret}, instead of 1.`,
        '1 record, 1 message and 0 marks would keep their ids. They are still found until they end.'
      ]
    ]
  )
  assert.match(planned.err, /nothing was changed; add --yes/)
  assert.deepEqual([await shown(), existsSync(secret)], [['ids are made by  1', 'this file makes  2, 1'], false])

  const done = await upgrade(['--yes'])
  assert.deepEqual([done.exitCode, done.err], [0, ''])
  const name = nameOfFile(secret)
  assert.deepEqual(done.out.split('\n'), [
    `Ids are made by the scheme ${name}, instead of 1.`,
    '1 record, 1 message and 0 marks keep their ids. They are still found until they end.',
    `Its secret is in ${secret}. Keep a copy of it, but not beside the backups of the store.`
  ])
  assert.equal(statSync(secret).mode & 0o777, 0o600)
  assert.equal(readFileSync(secret, 'utf8').trim().length, 43)
  const [now = '', before = '', file] = await shown()
  assert.match(now, new RegExp(`^ids are made by  ${name} \\(number 2\\), since \\S+ by ada: release 2 is everywhere$`))
  assert.match(before, /^before {11}1: still searched, until nothing of it is left \(not before \S+\)\.$/)
  assert.equal(file, `this file makes  ${name}, 2, 1 (with ${secret})`)
  assert.deepEqual(await upgrade(['--yes']), {
    exitCode: 0,
    out: 'Nothing to do: this is the current scheme already (number 2).',
    err: ''
  })
})

test('a store that nobody has served from yet says so', async (t) => {
  const { dataDir, shown, upgrade } = storeOf(t)
  // As a start that came to no end leaves it.
  new DatabaseSync(join(dataDir, 'onceway.db')).close()
  assert.match((await shown())[0] ?? '', /^ids are made by {2}no scheme yet: the first gateway that serves chooses$/)
  assert.match((await upgrade(['--yes'])).out, /^Ids are made by the scheme 2:\S{11}\.\nIts secret is in /)
})

test('while a gateway serves it is refused, and no secret is made; nor where no store is', async (t) => {
  const { served, upgrade, secret } = storeOf(t)
  await served(async () => {
    const refused = await upgrade(['--yes'])
    assert.equal(refused.exitCode, 1)
    assert.match(refused.err, /Another onceway serves from/)
  })
  assert.equal(existsSync(secret), false)
  const nowhere = join(directory(t), 'nowhere')
  for (const words of [['ids'], ['ids', 'upgrade', '--yes', ...WHY]]) {
    const { exitCode, err } = await say([...words, '--data-dir', nowhere])
    assert.equal(exitCode, 1)
    assert.match(err, /There is no database in/)
  }
  assert.equal(existsSync(nowhere), false)
})

test('while anything of the scheme before is left there is no other, and it says how much', async (t) => {
  const { served, upgrade } = storeOf(t)
  await served(async (store) => keyedIn(store, 'order-1', null, 1))
  assert.equal((await upgrade(['--yes'])).exitCode, 0)
  const refused = await upgrade(['--yes'], { ONCEWAY_SECRET: NEW })
  assert.equal(refused.exitCode, 1)
  assert.match(refused.err, /^onceway: refused, nothing changed\. 1 record, 1 message and 0 marks of the scheme 1 are left, .*Wait until `onceway ids` says that nothing of it is left\.$/)
})

test('a secret is changed with the one before it as previousSecret, and refused without: every gateway would be blocked', async (t) => {
  const { served, upgrade, shown, secret } = storeOf(t)
  await served(async (store) => keyedIn(store, 'order-1', OLD, 1), schemeName(2, Buffer.from(OLD)))
  const without = await upgrade(['--yes'], { ONCEWAY_SECRET: NEW })
  assert.equal(without.exitCode, 1)
  assert.match(without.err, new RegExp(`The current scheme 2:${secretFingerprint(Buffer.from(OLD))} has a secret that is missing here\\. Set previousSecret to it\\. .*--secret-lost`))
  const nothing = await upgrade(['--yes'])
  assert.match(nothing.err, /Set previousSecret to it/)
  assert.equal(existsSync(secret), false, 'what is refused makes no secret')
  const both = { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD }
  assert.match(
    (await upgrade(['--yes'], both)).out,
    new RegExp(`^Ids are made by the scheme ${schemeName(2, Buffer.from(NEW))}, instead of ${schemeName(2, Buffer.from(OLD))}\\.`)
  )
  assert.equal(
    (await shown(both)).at(-1),
    `this file makes  ${[NEW, OLD].map((secret) => schemeName(2, Buffer.from(secret))).join(', ')}, 2, 1`
  )
})

test('a secret that is lost is given up before a switch or after it, and only where it is missing', async (t) => {
  const { served, upgrade, shown } = storeOf(t)
  await served(async (store) => keyedIn(store, 'order-1', OLD, 1), schemeName(2, Buffer.from(OLD)))
  const known = await upgrade(['--yes', '--secret-lost'], { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD })
  assert.equal(known.exitCode, 1)
  assert.match(known.err, /No secret is missing here: this file can make ids by the scheme 2:\S+\. Omit --secret-lost\./)
  const lost = { ONCEWAY_SECRET: NEW }
  const planned = await upgrade(['--secret-lost'], lost)
  assert.equal(planned.exitCode, 1)
  assert.match(planned.out, /1 record, 1 message and 0 marks would keep their ids\. They cannot be found any more\./)
  assert.equal((await upgrade(['--yes', '--secret-lost'], lost)).exitCode, 0)
  assert.match((await shown(lost))[1] ?? '', /Its secret is lost\.$/)
  assert.match((await upgrade(['--yes', '--secret-lost'], lost)).out, /^Nothing to do/)

  const other = storeOf(t)
  await other.served(async (store) => keyedIn(store, 'order-1', OLD, 1), schemeName(2, Buffer.from(OLD)))
  assert.equal((await other.upgrade(['--yes'], { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD })).exitCode, 0)
  assert.match(
    (await other.upgrade(['--secret-lost'], lost)).out,
    /^The secret of the scheme 2:\S+ would be given up\. 1 record, 1 message and 0 marks are left of it\. They cannot be found/
  )
  assert.doesNotMatch((await other.shown(lost))[1] ?? '', /lost/)
  assert.match((await other.upgrade(['--yes', '--secret-lost'], lost)).out, /^The secret of the scheme 2:\S+ is given up\./)
  assert.match((await other.shown(lost))[1] ?? '', /Its secret is lost\.$/)
})

test('a secret that cannot be read, or is none, is one sentence', async (t) => {
  const { served, shown, ids, secret } = storeOf(t)
  await served()
  writeFileSync(secret, 'short\n')
  const none = await ids([])
  assert.deepEqual(
    [none.exitCode, /^onceway: The file \S+ holds no secret: put back the one that was made there/.test(none.err)],
    [1, true]
  )
  rmSync(secret)
  mkdirSync(secret)
  const unreadable = await ids([])
  assert.deepEqual(
    [unreadable.exitCode, /^onceway: The secret beside the embedded store cannot be read \(\S+\): /.test(unreadable.err)],
    [1, true]
  )
  rmSync(secret, { recursive: true })
  assert.equal((await shown()).length, 2)
})

test('a secret is made once, whole or not at all, and never beside a gateway that serves', async (t) => {
  const { dataDir, secret, served } = storeOf(t)
  // Of one who came to no end.
  writeFileSync(`${secret}.new`, 'half a sec')
  const made = makeSecret(dataDir)
  assert.deepEqual([nameOfFile(secret), existsSync(`${secret}.new`)], [schemeName(2, made), false])
  assert.deepEqual(makeSecret(dataDir), made)
  await served(async () => { assert.throws(() => makeSecret(dataDir), /Another onceway serves from/) })
})

test('records and messages are found by their key whichever scheme made its hash, and what cannot be looked for is said', async (t) => {
  const { dataDir, served, upgrade } = storeOf(t)
  await served(async (store) => keyedIn(store, 'order-1', OLD, 1), schemeName(2, Buffer.from(OLD)))
  const both = { ONCEWAY_SECRET: NEW, ONCEWAY_PREVIOUS_SECRET: OLD }
  assert.equal((await upgrade(['--yes'], both)).exitCode, 0)
  await served(async (store) => { await keyedIn(store, 'order-1', NEW, 2); await keyedIn(store, 'order-2', NEW, 2) })
  for (const command of ['records', 'inbox']) {
    const found = async (env: Readonly<Record<string, string>>): Promise<[number, number, string]> => {
      const { exitCode, out, err } = await say([command, 'list', '--json', '--key', 'order-1', '--data-dir', dataDir], env)
      return [exitCode, out === '' ? 0 : out.split('\n').length, err]
    }
    assert.deepEqual(await found(both), [0, 2, ''])
    const old = schemeName(2, Buffer.from(OLD))
    assert.deepEqual(await found({ ONCEWAY_SECRET: NEW }), [
      0,
      1,
      `Not everything is found by key: this configuration does not have the secret of the scheme ${old} (set secret or previousSecret to it).`
    ])
    const [exitCode, count, err] = await found({})
    assert.deepEqual([exitCode, count], [1, 0])
    assert.match(err, /^onceway: Cannot search by key: this configuration does not have the secret of the scheme 2:\S+ .*, and this configuration does not have the secret of the scheme 2:/)
  }
  assert.equal((await upgrade(['--yes', '--secret-lost'], { ONCEWAY_SECRET: NEW })).exitCode, 0)
  assert.match(
    (await say(['records', 'list', '--key', 'order-1', '--data-dir', dataDir], { ONCEWAY_SECRET: NEW })).err,
    /^Not everything is found by key: the secret of the scheme 2:\S+ is lost\.$/
  )
})

test('what is missing or wrong is exit 2 and changes nothing', async (t) => {
  const { served, ids, shown, upgrade } = storeOf(t)
  await served()
  for (const words of [
    ['upgrade', '--yes'],
    ['upgrade', '--yes', '--why', ' '],
    ['downgrade'],
    ['--yes'],
    ['show', '--without', 'gw'],
    ['upgrade', 'now', ...WHY],
    ['upgrade', '--sooner', ...WHY]
  ]) {
    assert.equal((await ids(words)).exitCode, 2, words.join(' '))
  }
  assert.equal((await upgrade(['--yes'], { ONCEWAY_SECRET: 'short' })).exitCode, 2)
  assert.deepEqual(await shown(), ['ids are made by  1', 'this file makes  2, 1'])
})
