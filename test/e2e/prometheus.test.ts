/** What Prometheus makes of a real gateway: its own linter over /metrics, and the rules of deploy/ over what is there from the start. */
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { call, callRaw } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { directory } from '../cli/world.ts'
import { ALERTS, promtool, RECORDS, RULES, selectorsOf } from '../telemetry/rules.ts'
import { metricsOf, totalOf } from './metrics.ts'
import { startServers } from './world.ts'
import type { Servers } from './world.ts'

/** It shares the processors with other tests. */
const LONGEST_MS = 60_000
/**
 * Nothing but a request makes these: the others begin with the gateway, and one that fails on a machine short of time
 * is counted rightly.
 */
const OF_REQUESTS = /operation="(claim_insert|claim_look|insert|look|settle|lock|write)"/
/** A listener without TLS has none of these. */
const OF_TLS = /^onceway_tls_/
/** Read with the first comparison of gateways, a moment after the start. */
const COMPARED = 'onceway_policy_differences'

/** A route in every mode, and one that passes through. `more`: stores and workers. */
const fileOf = (upstream: string, more: string): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
${more}
upstreams: { api: { url: "${upstream}" } }
routes:
  - name: things
    match: { path: /things, methods: [POST] }
    upstream: api
    idempotency: { scope: public }
  - name: dropped
    match: { path: /dropped, methods: [POST] }
    upstream: api
    idempotency: { mode: drop, profile: relay, scope: public, key: { from: ["header:Idempotency-Key"] } }
  - name: hooks
    match: { path: /hooks, methods: [POST] }
    upstream: api
    idempotency: { mode: inbox, profile: relay, scope: public, key: { from: ["header:Idempotency-Key"], required: true } }
  - match: { path: "/*" }
    upstream: api
`

async function lint (gateway: ProcessGateway): Promise<void> {
  const { text } = await call(gateway.adminUrl, '/metrics', { method: 'GET' })
  assert.match(text, /^onceway_build_info/m)
  assert.deepEqual(promtool(['check', 'metrics'], text), { code: 0, said: '' })
}

async function traffic (gateway: ProcessGateway, witness: Witness): Promise<void> {
  const post = (path: string, key: string, body = 'one') => call(gateway.url, path, { headers: { 'Idempotency-Key': key }, body })
  assert.equal((await post('/things', 'a')).status, 201)
  assert.equal((await post('/things', 'a')).status, 201)
  assert.equal((await post('/things', 'a', 'another')).status, 422)
  await call(gateway.url, '/things', { body: 'without a key' })
  await post('/dropped', 'a')
  await post('/dropped', 'a')
  assert.equal((await post('/hooks', 'a')).status, 202)
  await post('/elsewhere', 'a')
  await call(gateway.url, '/elsewhere', { method: 'GET' })
  await callRaw(gateway.url, 'no HTTP at all\r\n\r\n')
  await eventually(() => witness.seen.some(({ target }) => target === '/hooks'), 'the message is delivered', LONGEST_MS)
}

/** Those of counters are 0. */
async function series (gateway: ProcessGateway): Promise<void> {
  const asked = [...ALERTS, ...RECORDS].flatMap(({ expr }) => selectorsOf(expr)).filter(({ name }) => name !== 'up' && !OF_TLS.test(name))
  assert.ok(asked.length > 30)
  await eventually(async () => (await linesOf(gateway)).some((line) => line.startsWith(COMPARED)), `${COMPARED} is there`, LONGEST_MS)
  const lines = await linesOf(gateway)
  for (const { text, name, matches } of asked) {
    const those = lines.filter((line) => matches(line.replace(/ \S+$/, '')))
    assert.ok(those.length > 0, `${text} is not there`)
    const untouched = name === 'onceway_store_errors_total' ? those.filter((line) => OF_REQUESTS.test(line)) : those
    assert.ok(untouched.length > 0, `${name} has nothing of requests`)
    if (/_total$|_bucket$/.test(name)) assert.deepEqual(untouched.filter((line) => !line.endsWith(' 0')), [], 'each is 0')
  }
}

async function linesOf (gateway: ProcessGateway): Promise<string[]> {
  const { text } = await call(gateway.adminUrl, '/metrics', { method: 'GET' })
  return text.split('\n').filter((line) => !line.startsWith('#'))
}

/** Of traffic that no guard sees, of pools, and of what an alert reads of the process: in one process and in workers. */
const SEEN = [
  'onceway_http_requests_total{route="/*",method="GET",status="2xx"}',
  'onceway_http_requests_total{route="things",method="POST",status="2xx"}',
  'onceway_http_requests_total{route="(none)",method="OTHER",status="4xx"}', 'onceway_http_request_duration_seconds_count{route="/*"}',
  'onceway_claim_duration_seconds_count', 'onceway_upstream_connections{upstream="api",traffic="guarded"}',
  'onceway_upstream_slots_max{upstream="api",traffic="passed"}', 'onceway_heap_limit_bytes'
]
const OF_PROCESS = ['nodejs_eventloop_lag_p99_seconds', 'nodejs_heap_size_used_bytes', 'process_cpu_seconds_total']

async function seen (gateway: ProcessGateway, how: string): Promise<void> {
  const metrics = await metricsOf(gateway.adminUrl)
  for (const name of SEEN) assert.ok(totalOf(metrics, name) > 0, `${name} is ${metrics.get(name)}`)
  const label = how === 'two workers' ? '{worker="1"}' : ''
  for (const name of OF_PROCESS) assert.ok(metrics.has(`${name}${label}`), `${name}${label}`)
  const store = how === 'the embedded store' ? 'sqlite' : 'postgres'
  const [silent = NaN] = metrics.get(`onceway_store_contact_age_seconds{store="${store}"}`) ?? []
  assert.ok(silent >= 0, String(silent))
  if (store === 'sqlite') return
  const open = ['used', 'idle'].map((state) =>
    totalOf(metrics, `onceway_store_connections{store="postgres",purpose="claims",state="${state}"}`))
  assert.ok(open.some((count) => count > 0), open.join())
  assert.ok(totalOf(metrics, 'onceway_store_connections{store="redis",purpose="commands",state="used"}') > 0)
  for (const labels of ['{store="postgres",purpose="claims"}', '{store="redis",purpose="commands"}']) {
    assert.ok(metrics.has(`onceway_store_queue${labels}`), labels)
  }
}

describe('for Prometheus', needs('postgres', 'redis', 'promtool'), () => {
  let servers: Servers
  let witness: Witness
  before(async () => { [servers, witness] = await Promise.all([startServers(), startWitness()]) })
  after(async () => { await Promise.all([servers.stop(), witness.close()]) })

  async function readyOn (t: { after: (end: () => Promise<void>) => void }, how: string, dataDir: string): Promise<ProcessGateway> {
    const stores = how === 'the embedded store'
      ? ''
      : `stores: { postgres: { url: "${await servers.postgres.createDatabase('metrics')}" }, redis: { url: "${servers.redis.url}" } }`
    const gateway = await startProcess(t, {
      config: fileOf(witness.url, `${stores}${how === 'two workers' ? '\nworkers: 2' : ''}`),
      args: ['--data-dir', dataDir]
    })
    await eventually(async () => (await call(gateway.adminUrl, '/readyz', { method: 'GET' })).status === 200, 'it is ready', LONGEST_MS)
    return gateway
  }

  for (const how of ['the embedded store', 'Postgres and Redis', 'two workers']) {
    test(`every series of an alert is there from the start, and promtool has nothing to say before any request and after traffic in every mode: ${how}`, async (t) => {
      const gateway = await readyOn(t, how, directory(t))
      await series(gateway)
      await lint(gateway)
      witness.seen.length = 0
      await traffic(gateway, witness)
      await lint(gateway)
      await seen(gateway, how)
      // Names that dashboards for Node read, whatever the linter thinks of them.
      const metrics = await metricsOf(gateway.adminUrl)
      for (const name of ['handles', 'requests', 'resources']) assert.ok(metrics.has(`nodejs_active_${name}_total`))
    })
  }
})

test('the rules of deploy/prometheus are such as Prometheus takes', needs('promtool'), () => {
  assert.match(promtool(['check', 'rules', RULES]).said, /SUCCESS: \d+ rules found/)
})

test('the queries of docs/reference/metrics.md are such as Prometheus takes', needs('promtool'), (t) => {
  const page = readFileSync(new URL('../../docs/reference/metrics.md', import.meta.url), 'utf8')
  const queries = /```promql\n([\s\S]*?)```/.exec(page)?.[1]?.split('\n').filter((line) => line !== '' && !line.startsWith('#')) ?? []
  assert.equal(queries.length, 4)
  const file = join(directory(t), 'rules.json')
  writeFileSync(file, JSON.stringify({ groups: [{ name: 'page', rules: queries.map((expr, at) => ({ record: `query:${at}`, expr })) }] }))
  assert.match(promtool(['check', 'rules', file]).said, /SUCCESS: 4 rules found/)
})
