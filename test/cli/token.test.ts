/** `onceway token`: what it prints, and what it refuses. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { parseTokens } from '../../src/config/operator-tokens.ts'
import { say } from './world.ts'

test('it prints a new token each time, and the line with its hash', async () => {
  const [first, second] = [await say(['token', 'ann@example.com', '--role', 'operator']), await say(['token', 'ann', '--role', 'viewer'])]
  const [secret = '', line = '', ...more] = first.out.split('\n')
  assert.deepEqual([first.exitCode, first.err, more], [0, '', []])
  assert.match(secret, /^ow_[A-Za-z0-9_-]{43}$/)
  assert.deepEqual(parseTokens(line), {
    entries: [{ name: 'ann@example.com', role: 'operator', hash: createHash('sha256').update(secret).digest() }]
  })
  assert.ok(!line.includes(secret))
  assert.notEqual(second.out.split('\n')[0], secret)
})

test('it refuses a name or a role that no tokens file may have', async () => {
  const told = async (...args: string[]): Promise<string> => {
    const { exitCode, out, err } = await say(['token', ...args])
    assert.deepEqual([exitCode, out], [2, ''])
    return err.split('\n')[0] ?? ''
  }
  assert.equal(await told('--role', 'admin'), 'onceway: Name the operator: onceway token NAME --role ROLE.')
  assert.equal(await told('ann'), 'onceway: --role is needed.')
  assert.equal(
    await told('ann', '--role', 'operater'),
    'onceway: --role must be one of viewer, reader, operator, admin; did you mean operator?'
  )
  assert.equal(
    await told('two words', '--role', 'admin'),
    'onceway: This name cannot be used: a name has 1 to 128 letters, digits and . _ @ -.'
  )
  for (const [name, meaning] of [
    ['admin.token', 'the token in the configuration'],
    ['probe', 'what a probe of the upstream has found'],
    ['loopback', 'whoever uses the admin port on this machine without a sign-in']
  ] as const) {
    const reason = `the name ${name} is reserved for ${meaning}`
    assert.equal(await told(name, '--role', 'admin'), `onceway: This name cannot be used: ${reason}.`)
    assert.deepEqual(parseTokens(`${name} viewer sha256:${'0'.repeat(64)}`), { wrong: `line 1: ${reason}` })
  }
  assert.equal(await told('ann', 'bob', '--role', 'admin'), 'onceway: "bob" is one argument too many.')
})
