/** deploy/haproxy in front of two gateways on one Postgres: a gateway that stops, one that dies, and fields that clients forge. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { freePort } from '../harness/ports.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startProxy } from '../harness/proxies.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { startServers } from './world.ts'

const CFG = new URL('../../deploy/haproxy/onceway.cfg', import.meta.url)
const CLIENTS = 6
/** A check that was late, on a busy machine. */
const NOTICED_WITHIN_MS = 30_000
const FORGED = ['X-Forwarded-User', 'X-Forwarded-For', 'X-Original-Host', 'Forwarded', 'X-Real-IP', 'True-Client-IP']

describe('two gateways behind HAProxy', needs('postgres', 'redis', 'haproxy'), () => {
  const ends: Array<() => Promise<void>> = []
  const t = { after: (end: () => Promise<void>): void => { ends.push(end) } }
  let witness: Witness
  let config: string
  let gateways: ProcessGateway[]
  let door: string
  before(async () => {
    const servers = await startServers()
    t.after(async () => servers.stop())
    witness = await startWitness()
    t.after(async () => witness.close())
    const database = await servers.postgres.createDatabase('balanced')
    const [ports, admins] = [[await freePort(), await freePort()], [await freePort(), await freePort()]]
    config = `
version: 1
trustProxies: [127.0.0.1]
drain: { delay: 5s, timeout: 10s }
stores: { postgres: { url: "${database}" }, redis: { url: "${servers.redis.url}" } }
upstreams: { api: { url: "${witness.url}" } }
routes: [{ name: things, match: { path: "/*" }, upstream: api, idempotency: { lease: 2s } }]
`
    gateways = await Promise.all([0, 1].map(async (at) => start(ports[at] as number, admins[at] as number)))
    const port = await freePort()
    let text = replaced(readFileSync(CFG, 'utf8'), 'bind :8080', `bind 127.0.0.1:${port}`)
    for (const at of [0, 1]) text = replaced(text, `10.0.0.${at + 1}:8080`, `127.0.0.1:${ports[at]} port ${admins[at]}`)
    const haproxy = await startProxy('haproxy', port, () => ({ 'front.conf': text }))
    t.after(async () => haproxy.stop())
    door = `http://127.0.0.1:${port}`
    await eventually(async () => (await post('ready')).status === 201, 'it leads to a gateway', NOTICED_WITHIN_MS)
  })
  after(async () => { for (const end of ends.toReversed()) await end() })

  const start = async (port: number, adminPort: number): Promise<ProcessGateway> => startProcess(t, {
    config: `${config}listen: { host: 127.0.0.1, port: ${port} }\nadmin: { host: 127.0.0.1, port: ${adminPort} }\n`
  })

  const post = async (key: string, agent?: Agent, fields: Readonly<Record<string, string>> = {}): Promise<Called> => {
    const headers = { Authorization: 'Bearer me', 'Idempotency-Key': key, ...fields }
    return call(door, '/things', { headers, body: 'one', ...agent !== undefined && { agent } })
  }

  test('no field of a client says where it came from, or who it is', async () => {
    const before = witness.seen.length
    await post('forged', undefined, Object.fromEntries(FORGED.map((name) => [name, '6.6.6.6'])))
    const [seen] = witness.seen.slice(before)
    assert.equal(JSON.stringify(seen?.rawHeaders).includes('6.6.6.6'), false)
    assert.equal(seen?.headers['x-forwarded-for'], '127.0.0.1, 127.0.0.1')
  })

  test('a gateway that stops under load loses no request, and nor does the one that takes its place', async () => {
    const failures: string[] = []
    const load = { over: false, count: 0 }
    const clients = Array.from({ length: CLIENTS }, async (_, client) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 })
      for (let turn = 0; !load.over; turn++) {
        const { status, text } = await post(`load-${client}-${turn}`, agent)
        load.count++
        if (status !== 201) failures.push(`${status} ${text}`)
      }
      agent.destroy()
    })
    const [first] = gateways as [ProcessGateway, ProcessGateway]
    const address = (text: string): number => Number(new URL(text).port)
    await eventually(() => load.count > 10 * CLIENTS, 'the load runs')
    first.signal('SIGTERM')
    assert.equal(await first.exited, 0)
    gateways[0] = await start(address(first.url), address(first.adminUrl))
    // HAProxy leads to it again.
    await gateways[0].logged(({ event }) => event === 'request')
    load.over = true
    await Promise.all(clients)
    assert.deepEqual(failures, [])
  })

  test('if one dies, its request is unknown or never sent, and the other one answers every retry', async () => {
    const begun = Promise.withResolvers<undefined>()
    t.after(async () => { begun.resolve(undefined); await Promise.resolve() })
    const usual = witness.answer
    witness.answer = async (...args) => { await begun.promise; await usual(...args) }
    const before = witness.seen.length
    const keys = Array.from({ length: CLIENTS }, (_, at) => `dies-${at}`)
    const asking = keys.map(async (key) => post(key))
    await witness.reached(before + CLIENTS)
    gateways[0]?.signal('SIGKILL')
    await sleep(100)
    begun.resolve(undefined)
    witness.answer = usual
    const lost = (await Promise.all(asking)).filter(({ status }) => status !== 201)
    assert.ok(lost.length > 0 && lost.every(({ status }) => status === 502), JSON.stringify(lost.map(({ status }) => status)))
    for (const key of keys) {
      await eventually(async () => {
        const { status, json } = await post(key)
        return status === 201 || (json as { code?: string }).code === 'outcome-unknown'
      }, `${key} is decided`, NOTICED_WITHIN_MS)
    }
    assert.equal(witness.seen.length, before + CLIENTS, 'nothing is executed twice')
  })
})

function replaced (text: string, from: string, to: string): string {
  assert.equal(text.split(from).length, 2, `${from} is in the file once`)
  return text.replace(from, to)
}
