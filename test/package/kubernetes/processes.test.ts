/**
 * What the pods of deploy/kubernetes run, as processes here: the same words, environment and configuration, with real stores. Only
 * places differ: paths begin in a directory of the test, ports are free ones, and the upstream is the test's.
 */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { call } from '../../harness/call.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'
import { query, startPostgres } from '../../harness/postgres.ts'
import { bareEnv, MAIN, startProcess } from '../../harness/process-gateway.ts'
import { startRedis } from '../../harness/redis.ts'
import { startWitness } from '../../harness/witness.ts'
import { ROOT } from '../shipped.ts'
import { configurationOf, containerOf, oneOf, renderOverlay } from './rendered.ts'
import type { Manifest } from './rendered.ts'

const OVERLAY = 'postgres-redis'
const PASSWORDS = { onceway_owner: 'of-the-owner', onceway_gateway: 'of-gateways' }
/** One process after another on a busy machine. */
const LONGEST_MS = 120_000

interface Probe { readonly httpGet: { readonly path: string } }

describe('what the pods run', needs('kubectl', 'own postgres', 'own redis'), () => {
  let world: Awaited<ReturnType<typeof startWorld>>
  before(async () => { world = await startWorld() })
  after(async () => { await world.stop() })

  test('the Job makes the tables, and gateways start then and not before', { timeout: LONGEST_MS }, async (t) => {
    const [job, gateway] = [world.partOf(world.job), world.partOf(world.deployment)]
    const early = spawnSync(process.execPath, [MAIN, ...gateway.args], { env: gateway.env, encoding: 'utf8' })
    assert.notEqual(early.status, 0)
    assert.match(early.stderr + early.stdout, /onceway migrate/)
    const migrated = spawnSync(process.execPath, [MAIN, ...job.args], { env: job.env, encoding: 'utf8' })
    assert.equal(migrated.status, 0, migrated.stderr)

    const [words, ...args] = gateway.args
    assert.equal(words, 'serve')
    const running = await startProcess(t, { args, env: gateway.env })
    const get = async (probe: string) => call(running.adminUrl, (world.container[probe] as Probe).httpGet.path, { method: 'GET' })
    for (const probe of ['startupProbe', 'livenessProbe']) assert.equal((await get(probe)).status, 200, probe)
    await eventually(async () => (await get('readinessProbe')).status === 200, 'it to be ready', LONGEST_MS)
    await eventually(async () => {
      const { text } = await call(running.adminUrl, '/metrics', { method: 'GET' })
      return text.includes('onceway_redis_breaker_open 0')
    }, 'it to use Redis', LONGEST_MS)

    const pay = async () => call(running.url, '/v1/payments', {
      headers: { 'Idempotency-Key': 'k', Authorization: 'Bearer me', 'Content-Type': 'application/json' },
      body: '{}'
    })
    assert.deepEqual([(await pay()).headers['idempotency-status'], (await pay()).headers['idempotency-status']], ['executed', 'replayed'])
    const authorization = { Authorization: `Bearer ${world.secrets['onceway/admin-token']}` }
    assert.equal((await call(running.adminUrl, '/api/v1/records', { method: 'GET', headers: authorization })).status, 200)

    running.signal('SIGTERM')
    await eventually(async () => (await get('readinessProbe')).status === 503, 'it to leave the Service', LONGEST_MS)
    assert.equal((await get('livenessProbe')).status, 200)
    assert.equal((await pay()).headers['idempotency-status'], 'replayed')
    assert.equal(await running.exited, 0)
  })
})

async function startWorld () {
  const manifests = renderOverlay(OVERLAY)
  const [postgres, redis, upstream] = [await startPostgres(), await startRedis(), await startWitness()]
  const directory = makeDirectory('pods')
  const database = await postgres.createDatabase('app')
  await query(database, rightsOf(database))
  const as = (role: keyof typeof PASSWORDS): string => Object.assign(new URL(database), { username: role, password: PASSWORDS[role] }).href
  const secrets: Readonly<Record<string, string>> = {
    'onceway/database-url': as('onceway_gateway'),
    'onceway/redis-url': redis.url,
    'onceway/secret': 'c2VjcmV0LW9mLXRoZS1tYW5pZmVzdHMtb2YtdGVzdHM=',
    'onceway/admin-token': 'token-of-the-manifests',
    'onceway-owner/database-url': as('onceway_owner')
  }
  const placed = (text: string): string => text
    .replaceAll('/run/secrets', join(directory.path, 'secrets'))
    .replaceAll('/etc/onceway', join(directory.path, 'etc'))
  for (const below of ['etc', 'secrets/onceway', 'secrets/onceway-owner']) mkdirSync(join(directory.path, below), { recursive: true })
  for (const [path, text] of Object.entries(secrets)) writeFileSync(join(directory.path, 'secrets', path), `${text}\n`)
  writeFileSync(join(directory.path, 'etc/onceway.yaml'), placed(configurationOf(manifests).text))
  const elsewhere = { ONCEWAY_LISTEN_PORT: '0', ONCEWAY_ADMIN_PORT: '0', ONCEWAY_UPSTREAMS_PAYMENTS_URL: upstream.url }
  const deployment = oneOf(manifests, 'Deployment')
  return {
    deployment,
    job: oneOf(manifests, 'Job', 'onceway-migrate'),
    container: containerOf(deployment) as Readonly<Record<string, unknown>>,
    secrets,
    partOf (manifest: Manifest): { readonly args: string[], readonly env: Record<string, string> } {
      const { args, env } = containerOf(manifest) as { args: string[], env: Array<{ name: string, value: string }> }
      const own = Object.fromEntries(env.map(({ name, value }) => [name, placed(value)]))
      return { args: args.map(placed), env: { ...bareEnv(), ...own, ...elsewhere } }
    },
    async stop () {
      await Promise.all([postgres.stop(), redis.stop(), upstream.close()])
      directory.remove()
    }
  }
}

/** The two roles of docs/guides/deploy-with-postgres.md, as it makes them. */
function rightsOf (database: string): string {
  const page = readFileSync(join(ROOT, 'docs/guides/deploy-with-postgres.md'), 'utf8')
  const sql = /```sql\n(CREATE ROLE onceway_owner[\s\S]*?)```/.exec(page)?.[1] ?? ''
  return sql
    .replace('change-me-1', PASSWORDS.onceway_owner)
    .replace('change-me-2', PASSWORDS.onceway_gateway)
    .replace('DATABASE app', `DATABASE ${JSON.stringify(new URL(database).pathname.slice(1))}`)
}
