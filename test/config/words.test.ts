/** Mistakes in words: the wrong value, and the one that was probably meant. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { say } from '../cli/world.ts'
import { ConfigWorld, fileWith } from './world.ts'

test('a mistake shows the wrong value, cut and without control characters, and never one that may hold a secret', (t) => {
  const world = new ConfigWorld(t)
  const complaints = (policy: string, rest = ''): string => world.complaints(fileWith({ policy, rest })).join('\n')
  assert.equal(complaints('{ profile: rely }'), 'routes[0].idempotency.profile: "rely" must be one of api, relay; did you mean relay?')
  assert.equal(complaints('{}', 'listen: { port: 99999 }'), 'listen.port: 99999 must be <= 65535')
  assert.equal(
    complaints(`{ unknown: "${'x'.repeat(70)}\\u001b[2J" }`),
    `routes[0].idempotency.unknown: "${'x'.repeat(60)}…" must be one of hold, retry, probe`
  )
  assert.equal(complaints('{ unknown: "a\\u001b[2J" }'), 'routes[0].idempotency.unknown: "a\\u001b[2J" must be one of hold, retry, probe')
  assert.equal(complaints('{}', 'admin: { token: short }'), 'admin.token: must have at least 16 characters')
  assert.equal(complaints('{}', 'admin: a-token-in-the-wrong-place'), 'admin: must be a map')
  assert.deepEqual(world.complaints(fileWith(), { ONCEWAY_LOG_LEVEL: 'wrn' }), [
    'log.level: "wrn" must be one of debug, info, warn, error, silent; did you mean warn?'
  ])
})

for (const [what, policy, meant] of [
  ['a value', '{ unknown: prob }', 'probe'],
  ['two letters in each other\'s place', '{ unknown: hodl }', 'hold'],
  ['a name of three letters', '{ kye: { from: github } }', 'key'],
  ['a sender', '{ key: { from: githb } }', 'github'],
  ['a source of the key', '{ key: { from: "heder:X-Id" } }', 'header'],
  ['a scope', '{ scope: credentials }', 'credential'],
  ['a part of a scope', '{ scope: ["hedder:X-Tenant"] }', 'header'],
  ['a part of the fingerprint', '{ fingerprint: { of: [metod] } }', 'method'],
  ['what becomes of a status', '{ keep: { statuses: { 409: relase } } }', 'release'],
  ['a unit of time', '{ retention: 5 min }', '5m'],
  ['a unit of size', '{ keep: { responseBytesMax: 1MB } }', '1MiB'],
  ['one word for all', '{ fingerprint: non }', 'none']
] as const) {
  test(`did you mean: ${what}`, (t) => {
    assert.match(new ConfigWorld(t).complaints(fileWith({ policy })).join('\n'), new RegExp(`^[^\\n]+; did you mean ${meant}\\?$`))
  })
}

test('did you mean: the upstream of a route', (t) => {
  assert.deepEqual(new ConfigWorld(t).complaints(fileWith().replace('upstream: payments', 'upstream: paymnts')), [
    'routes[0].upstream: "paymnts" names no upstream; there is payments; did you mean payments?'
  ])
})

test('did you mean: a command, its subcommand and its options', async () => {
  for (const [argv, said] of [
    [['serv'], /there is no command "serv"; did you mean serve\?/],
    [['check', '--confg', 'a'], /Unknown option '--confg'; did you mean --config\?/],
    [['records', 'lst'], /There is no "lst" here; did you mean list\? Name a subcommand: list, /],
    [['inbox', '--config', 'a'], /A subcommand comes before the options\. Name a subcommand: list, show, /],
    [['inbox', 'retri'], /did you mean retry\?/],
    [['clock', 'confrm'], /did you mean confirm\?/],
    [['ids', 'upgrad'], /did you mean upgrade\?/],
    [['epoch', 'bum'], /did you mean bump\?/]
  ] as const) {
    const { exitCode, err } = await say(argv)
    assert.equal(exitCode, 2, argv.join(' '))
    assert.match(err, said)
  }
})

test('a secret file whose text is too short is named, with the length that is needed, and not its text', (t) => {
  const world = new ConfigWorld(t)
  const file = world.write('token', 'hunter2\n')
  const of = (rest: string): string[] => world.complaints(fileWith({ rest }))
  assert.deepEqual(of('admin: { tokenFile: token }'), [`admin.tokenFile: ${file} must have at least 16 characters`])
  assert.deepEqual(of('issuedKeys: { secrets: [{ id: a, secretFile: token }] }'), [
    `issuedKeys.secrets[0].secretFile: ${file} must have at least 32 characters`
  ])
  assert.match(of('secretFile: token').join('\n'), new RegExp(`^secretFile: ${file} must have at least 16 random bytes`))
  const [problem] = world.problems(fileWith({ rest: 'admin: { tokenFile: token }' }))
  assert.deepEqual([problem?.line, problem?.column], [2, 21])
  assert.deepEqual(world.problems(fileWith(), { ONCEWAY_ADMIN_TOKEN_FILE: file }).map((each) => each.file), ['ONCEWAY_ADMIN_TOKEN_FILE'])
})
