/** The overview of a gateway whose database is away: what the process knows is told, and what was not read says why. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { load } from '../../src/config/load.ts'
import { showOverview } from '../../src/operator/overview/overview.ts'
import { OperatorProblem } from '../../src/operator/shared/problem.ts'
import { Operators } from '../../src/process/operators.ts'
import { makeDirectory } from '../harness/directory.ts'
import { viewOf } from '../http/api/world.ts'

for (const [what, answers] of [['refuses connections', false], ['takes connections and says nothing', true]] as const) {
  test(`the overview of a gateway comes while its database ${what}`, async (t) => {
    const sockets: Socket[] = []
    const server = createServer((socket) => { sockets.push(socket) })
    await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
    const { port } = server.address() as AddressInfo
    const close = () => { for (const socket of sockets) socket.destroy(); server.close() }
    if (answers) t.after(close)
    else close()
    const directory = makeDirectory('overview')
    t.after(() => { directory.remove() })
    const file = join(directory.path, 'onceway.yaml')
    writeFileSync(file, `version: 1
stores: { postgres: { url: "postgres://nobody@127.0.0.1:${port}/none" } }
upstreams: { a: { url: "http://127.0.0.1:1" } }
routes: [{ match: { path: "/*" }, upstream: a }]
`)
    const { config } = load(file, { env: {} })
    const { gateway } = viewOf(config, () => ({ status: 'degraded', degraded: ['postgres'], reason: null, durability: null }))
    assert.ok(gateway !== null)
    const operators = new Operators({
      config: () => config,
      clock: { aheadMs: 0, believedMs: () => null },
      log: { debug () {}, info () {}, warn () {}, error () {} },
      gateway,
      marksOf: () => null
    })
    const began = performance.now()
    const overview = await showOverview(await operators.context())
    assert.ok(performance.now() - began < 8_000)
    close()
    await operators.close()
    assert.ok(!(overview instanceof OperatorProblem))
    assert.deepEqual([overview.status.status, overview.recent.requests, overview.gateway.version], ['degraded', 5, '0.0.0'])
    assert.deepEqual([overview.unknown, overview.inbox, overview.contact.gateways], [null, null, null])
    assert.deepEqual(overview.notRead.map(({ part }) => part), ['contact.gateways', 'inbox', 'unknown'])
    for (const { why } of overview.notRead) assert.match(why, answers ? /has not answered within/ : /ECONNREFUSED/)
    assert.deepEqual(overview.contact.stores, [{ store: 'postgres', usable: false }])
    assert.deepEqual(overview.lastReload?.details, ['a mistake'])
  })
}
