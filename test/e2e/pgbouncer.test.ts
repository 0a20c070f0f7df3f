/** Two gateways and one PgBouncer in transaction mode before their Postgres, as Debian 12 ships it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPgBouncer } from '../harness/pgbouncer.ts'
import type { PgBouncer } from '../harness/pgbouncer.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'
import { configOf } from './world.ts'

const KEYS = 150
const CLIENTS = 25
const SERVED_WITHIN_MS = 20_000

describe('gateways behind which a PgBouncer stands', needs('own postgres', 'pgbouncer'), () => {
  let postgres: PostgresServer
  let pooler: PgBouncer
  before(async () => {
    postgres = await startPostgres()
    pooler = await startPgBouncer({ target: postgres.port })
  })
  after(async () => {
    await pooler.stop()
    await postgres.stop()
  })

  async function twoGateways (t: TestContext, witness: Witness, prepared = false): Promise<ProcessGateway[]> {
    t.after(() => witness.close())
    const database = pooler.through(await postgres.createDatabase('pooled'))
    const config = configOf({ database, redis: null, upstream: witness.url }).replace('postgres: {', `postgres: { prepared: ${prepared},`)
    const gateways = await Promise.all([startProcess(t, { config }), startProcess(t, { config })])
    for (const gateway of gateways) {
      await eventually(async () =>
        (await call(gateway.adminUrl, '/readyz', { method: 'GET' })).text.includes('"ready"'), 'it is ready', SERVED_WITHIN_MS)
    }
    return gateways
  }

  const ask = (gateway: ProcessGateway | undefined, key: string): Promise<Called> => call(gateway?.url ?? '', '/things', {
    headers: { 'Idempotency-Key': key },
    body: 'one'
  })

  async function final (gateway: ProcessGateway | undefined, key: string): Promise<Called> {
    let answer: Called | null = null
    await eventually(async () => {
      answer = await ask(gateway, key)
      return answer.status !== 409 && answer.status !== 503
    }, `${key} gets an answer`, SERVED_WITHIN_MS)
    return answer as unknown as Called
  }

  /** Every key at both, twice each. */
  async function everybodyAsks (
    gateways: readonly ProcessGateway[],
    meanwhile: (asked: number) => Promise<void> = async () => {}
  ): Promise<Map<string, Called[]>> {
    const answers = new Map<string, Called[]>()
    let next = 0
    await Promise.all(Array.from({ length: CLIENTS }, async () => {
      for (let turn = next++; turn < KEYS; turn = next++) {
        const key = `key-${turn}`
        await meanwhile(turn)
        answers.set(key, await Promise.all([...gateways, ...gateways].map(async (gateway) => final(gateway, key))))
      }
    }))
    return answers
  }

  test('under load with duplicates every key is executed once, and all who asked got its answer', async (t) => {
    const witness = await startWitness()
    const answers = await everybodyAsks(await twoGateways(t, witness))
    for (const [key, all] of answers) {
      for (const answer of all) {
        assert.equal(answer.status, 201, `${key}: ${answer.text}`)
        assert.deepEqual(answer.body, all[0]?.body)
      }
    }
    assert.equal(witness.seen.length, KEYS)
  })

  test('a pooler that is killed under load costs 503s, and nothing is sent twice', async (t) => {
    const witness = await startWitness()
    const gateways = await twoGateways(t, witness)
    const answers = await everybodyAsks(gateways, async (turn) => { if (turn === KEYS / 3) await pooler.restart() })
    const seen = new Set(witness.seen.map(({ headers }) => headers['onceway-key']))
    assert.equal(witness.seen.length, seen.size, 'each once at most')
    assert.equal(seen.size, KEYS)
    for (const [key, all] of answers) {
      assert.ok(all.every(({ status }) => status === 201), `${key}: ${all.map(({ status }) => status).join(' ')}`)
    }
  })

  test('with named statements left on, the log says which setting to change, and nothing is sent twice', async (t) => {
    const witness = await startWitness()
    const gateways = await twoGateways(t, witness, true)
    const told = (): boolean => gateways.some((gateway) => gateway.logLines().some(({ level, msg }) =>
      level === 'error' && msg?.includes('stores.postgres.prepared: false') === true))
    for (let round = 0; !told() && round < 20; round++) {
      await Promise.all(Array.from({ length: CLIENTS }, async (_, client) => Promise.all(
        gateways.map(async (gateway) => ask(gateway, `named-${round}-${client}`))
      )))
    }
    assert.ok(told())
    const seen = witness.seen.map(({ headers }) => headers['onceway-key'])
    assert.equal(new Set(seen).size, seen.length)
  })
})
