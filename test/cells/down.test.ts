/** A cell that is down costs its own keys alone, and a request that may have been sent goes nowhere else. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { cellOf } from '../../src/core/cells/cells.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { Asker, cellsOf, PROXIES, startOrigin, startRouter } from './cells.ts'
import type { ProxyName } from '../harness/proxies.ts'

const REFUSING = `127.0.0.1:${await freePort()}`
const KEYS = Array.from({ length: 40 }, (_, at) => `key-${at}`)

/** Half of the keys go to `b`, which has these gateways. */
async function routed (t: TestContext, name: ProxyName, gateways: readonly string[]) {
  const [a, port] = [await startOrigin(t, 'a'), await freePort()]
  const cells = cellsOf(`
by: key
listen: 127.0.0.1:${port}
cells:
  a: { slots: 0-499, gateways: ["${a.address}"] }
  b: { slots: 500-999, gateways: ${JSON.stringify(gateways)} }`)
  const proxy = await startRouter(name, port, cells)
  const asker = new Asker(port)
  t.after(async () => { asker.close(); await proxy.stop() })
  return { a, asker, ofB: (key: string) => cellOf(cells, Buffer.from(key)).cell.name === 'b' }
}

/** Reads a request and cuts the connection. */
async function startCutter (t: TestContext) {
  let requests = 0
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => { requests++; socket.destroy() })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => { server.close() })
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, requests: () => requests }
}

describe('a cell that is down', needs('nginx', 'haproxy'), () => {
  for (const name of PROXIES) {
    for (const [what, gateways] of [['refuses', [REFUSING]], ['is closed', []]] as const) {
      test(`${name}: if it ${what}, its own keys get 503, and the others are served`, async (t) => {
        const { a, asker, ofB } = await routed(t, name, gateways)
        for (const key of KEYS) {
          const { status, headers, body } = await asker.ask(['Idempotency-Key', key])
          if (!ofB(key)) { assert.deepEqual([status, body], [200, 'a']); continue }
          assert.equal(status, 503)
          assert.equal(headers['retry-after'], '5')
          assert.equal(headers['content-type'], 'application/problem+json')
          const problem = JSON.parse(body) as Record<string, unknown>
          assert.deepEqual([problem.code, problem.status], ['cell-down', 503])
        }
        assert.equal(a.seen(), KEYS.filter((key) => !ofB(key)).length)
      })
    }

    test(`${name}: if one of its gateways refuses, the other one has its keys`, async (t) => {
      const b = await startOrigin(t, 'b')
      const { asker, ofB } = await routed(t, name, [REFUSING, b.address])
      for (const key of KEYS) {
        const { status, body } = await asker.ask(['Idempotency-Key', key])
        assert.deepEqual([status, body], [200, ofB(key) ? 'b' : 'a'])
      }
    })

    test(`${name}: what may have been sent is sent to no other gateway of the cell`, async (t) => {
      const [cutter, b] = [await startCutter(t), await startOrigin(t, 'b')]
      const { asker, ofB } = await routed(t, name, [cutter.address, b.address])
      let asked = 0
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE']) {
        for (const key of KEYS.filter(ofB)) {
          asked++
          const { status } = await asker.ask(['Idempotency-Key', key], { method })
          // HAProxy cuts a client's connection that it has used before, if the gateway's was cut.
          assert.ok([200, 502, 503, 0].includes(status), `${method}: ${status}`)
        }
      }
      assert.ok(cutter.requests() > 0)
      assert.equal(cutter.requests() + b.seen(), asked)
    })
  }
})
