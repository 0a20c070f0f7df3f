/** The harness itself: its servers answer, can be killed, paused and restarted, and leave nothing behind. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { test } from 'node:test'
import { needs } from './needs.ts'
import { query, startPostgres } from './postgres.ts'
import { startRedis } from './redis.ts'
import { makeDirectory } from './directory.ts'
import { Redis } from 'ioredis'

test('a Postgres that was killed comes back with what was committed', needs('own postgres'), async () => {
  const server = await startPostgres()
  try {
    const url = await server.createDatabase('Kept, after a kill')
    await query(url, 'create table kept as select 7 as number')
    await server.kill()
    await assert.rejects(query(url, 'select 1'))
    await server.restart()
    assert.deepEqual(await query(url, 'select number from kept'), [{ number: 7 }])
  } finally {
    await server.stop()
  }
})

test('a paused Postgres answers nothing until it is resumed', needs('own postgres'), async () => {
  const server = await startPostgres()
  try {
    server.pause()
    const answer = query(server.url, 'select 1 as number')
    const first = await Promise.race([answer, new Promise((resolve) => setTimeout(resolve, 200, 'silence'))])
    assert.equal(first, 'silence')
    server.resume()
    assert.deepEqual(await answer, [{ number: 1 }])
  } finally {
    await server.stop()
  }
})

test('a Redis that was restarted is empty', needs('own redis'), async () => {
  const server = await startRedis()
  const client = new Redis(server.url)
  client.on('error', () => {})
  try {
    await client.set('a', '1')
    await server.kill()
    await server.restart()
    assert.equal(await client.get('a'), null)
  } finally {
    client.disconnect()
    await server.stop()
  }
})

test('a test process that is killed leaves no server behind', needs('own redis'), async () => {
  const harness = new URL('./redis.ts', import.meta.url).href
  const program =
    `const { startRedis } = await import(${JSON.stringify(harness)}); console.log((await startRedis()).port); setInterval(() => {}, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = await once(child.stdout, 'data') as [Buffer]
  const client = new Redis(Number(line.toString()), '127.0.0.1', { retryStrategy: null })
  client.on('error', () => {})
  await client.ping()
  const gone = once(client, 'end')
  child.kill('SIGKILL')
  await gone
})

test('a temporary directory is gone when it was removed', () => {
  const directory = makeDirectory('gone')
  assert.ok(existsSync(directory.path))
  directory.remove()
  assert.ok(!existsSync(directory.path))
})
