import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog, hashedKey, pathOnly } from '../../src/telemetry/log.ts'
import { keyHash } from '../../src/core/identity.ts'

interface Line { readonly level: string, readonly msg: string, readonly err?: { message: string, stack: string, code?: string, cause?: { message: string } }, readonly [name: string]: unknown }

function logged (write: (log: ReturnType<typeof createLog>) => void, level: 'debug' | 'info' | 'silent' = 'debug'): { text: string, lines: Line[] } {
  const texts: string[] = []
  write(createLog({ level, instance: 'gw-1', destination: { write: (line) => { texts.push(line) } } }))
  return { text: texts.join(''), lines: texts.map((line) => JSON.parse(line) as Line) }
}

test('a line says when, how severe, which build and which gateway', () => {
  const { lines: [line] } = logged((log) => { log.info({ route: 'charges' }, 'settled') })
  assert.deepEqual([line?.level, line?.msg, line?.service, line?.instance, line?.route], ['info', 'settled', 'onceway', 'gw-1', 'charges'])
  assert.match(String(line?.time), /^\d{4}-\d\d-\d\dT/)
})

test('what is less severe than the level is not written', () => {
  assert.deepEqual(logged((log) => { log.debug({}, 'x') }, 'info').lines, [])
  assert.deepEqual(logged((log) => { log.error({}, 'x') }, 'silent').lines, [])
})

test('credentials, keys and bodies that slip in under a known name are redacted, at three depths', () => {
  const secret = 'hunter2'
  const fields = { authorization: secret, 'proxy-authorization': secret, cookie: secret, 'set-cookie': secret, 'x-api-key': secret, 'idempotency-key': secret, key: secret, keyText: secret, body: secret, password: secret, token: secret }
  const { text, lines } = logged((log) => { log.info({ ...fields, request: { ...fields, headers: fields } }, 'x') })
  assert.equal(lines.length, 1)
  assert.ok(!text.includes(secret), text)
})

test('a URL is written without credentials and query', () => {
  const { lines: [line] } = logged((log) => { log.info({ url: 'postgres://u:hunter2@h:5432/db?sslpassword=x' }, 'x') })
  assert.equal(line?.url, 'postgres://[redacted]@h:5432/db')
})

test('an error is written with its causes, without credentials and without what drivers hang on it', () => {
  const error = Object.assign(new Error('connect postgres://u:hunter2@h failed', { cause: new Error('refused') }), { code: 'ECONNREFUSED', client: { password: 'hunter2' } })
  const { text, lines: [line] } = logged((log) => { log.error({ err: error }, 'x') })
  assert.ok(!text.includes('hunter2'), text)
  assert.deepEqual([line?.err?.code, line?.err?.cause?.message], ['ECONNREFUSED', 'refused'])
})

test('a key is logged as the start of its hash, a target without its query', () => {
  assert.equal(hashedKey(keyHash('order-1')).length, 16)
  assert.ok(keyHash('order-1').toString('base64url').startsWith(hashedKey(keyHash('order-1'))))
  assert.deepEqual(['/a?token=1', '/a#b', '/a', ''].map(pathOnly), ['/a', '/a', '/a', ''])
})
