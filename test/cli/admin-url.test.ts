/** What the commands say of a gateway that they cannot ask, and of a mistake, whether they ask a gateway or a store. */
import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname } from 'node:path'
import { test } from 'node:test'
import { TOKENS, World } from '../http/api/world.ts'
import { say } from './world.ts'

const env = { ONCEWAY_ADMIN_TOKEN: TOKENS.admin }

test('a gateway that does not answer is said to, with the reason', async (t) => {
  const server = createServer((_request, response) => { response.writeHead(502, { 'content-type': 'text/html' }).end('<p>no</p>') })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  t.after(() => { server.close() })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const list = async (at: string) => say(['records', 'list', '--admin-url', at], env)
  const page = await list(url)
  assert.deepEqual([page.exitCode, /status 502, text\/html\.$/.test(page.err)], [1, true], page.err)
  server.closeAllConnections()
  await new Promise((resolve) => { server.close(resolve) })
  assert.match((await list(url)).err, /no answer from the gateway at \S+ \(ECONNREFUSED\)\.$/)
  assert.match((await list('http://127.0.0.1:1')).err, /no answer from the gateway at \S+ \(ECONNREFUSED\)\.$/)
})

test('the address of the API is taken for that of its port, and a mistake is the same at a gateway and at a store', async (t) => {
  const world = await World.open(t)
  for (const path of ['', '/', '/api/v1', '/api/v1/']) {
    assert.equal((await say(['records', 'list', '--admin-url', world.url + path], env)).exitCode, 0, path)
  }
  const there = await say(['audit', '--action', 'nope', '--admin-url', world.url], env)
  const here = await say(['audit', '--action', 'nope', '--data-dir', dirname(world.tokensFile)])
  assert.deepEqual([there.exitCode, here.exitCode, there.err], [2, 2, here.err])
  assert.match(here.err, /action must be equal to one of the allowed values: resolve, release, .*resume\.$/m)
  assert.equal((await say(['audit', '--action', 'resolve', '--data-dir', dirname(world.tokensFile)])).exitCode, 0)
})
