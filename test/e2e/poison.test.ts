/**
 * A message that its consumer refuses for ever: it ends dead with the last answer, and its group goes on or stops,
 * until an operator says so.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { directory, say } from '../cli/world.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import { metricsOf, totalOf } from './metrics.ts'

const ATTEMPTS_MAX = 2
/** On a busy machine. */
const LONGEST_MS = 30_000
const WHY = ['--why', 'the order was entered by hand']

const route = (name: string, onDead: string): string => `
  - name: ${name}
    match: { path: /${name} }
    upstream: consumer
    idempotency:
      mode: inbox
      profile: relay
      scope: public
      key: { from: ["header:Idempotency-Key"], required: true }
      inbox: { order: "header:X-Group", onDead: ${onDead}, maxAttempts: ${ATTEMPTS_MAX}, backoff: { first: 20ms, longest: 50ms } }`

function configOf (consumer: string, database: string | null): string {
  return `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
${database === null ? '' : `stores: { postgres: { url: "${database}" } }`}
drain: { delay: 0s, timeout: 5s }
upstreams: { consumer: { url: "${consumer}" } }
routes:${route('skipping', 'skip')}${route('stopping', 'stop-group')}
`
}

interface Told {
  readonly state: string
  readonly attempts: number
  readonly lastError: string | null
  readonly answer: { readonly code: number, readonly body: string } | null
  readonly nextAttemptAt: string | null
}

class Desk {
  /** In the consumer's order. */
  readonly taken: string[] = []
  isMended = false
  readonly #gateway: ProcessGateway
  /** By the name of the message. */
  readonly #locations = new Map<string, string>()
  readonly #where: { readonly args: readonly string[], readonly env: Record<string, string> }

  constructor (gateway: ProcessGateway, where: { readonly args: readonly string[], readonly env: Record<string, string> }) {
    this.#gateway = gateway
    this.#where = where
  }

  async send (route: string, group: string, name: string): Promise<Called> {
    const answer = await call(this.#gateway.url, `/${route}`, { headers: { 'Idempotency-Key': name, 'X-Group': group }, body: name })
    assert.equal(answer.status, 202)
    this.#locations.set(name, answer.headers.location ?? '')
    return answer
  }

  async told (name: string): Promise<Told> {
    const { status, json } = await call(this.#gateway.url, this.#locations.get(name) ?? '', { method: 'GET' })
    assert.equal(status, 200)
    return json as Told
  }

  async until (name: string, state: string, more: (told: Told) => boolean = () => true): Promise<Told> {
    let told = await this.told(name)
    await eventually(
      async () => { told = await this.told(name); return told.state === state && more(told) },
      () => `${name} is ${JSON.stringify(told)}, not ${state}`,
      LONGEST_MS
    )
    return told
  }

  idOf (name: string): string {
    return this.#locations.get(name)?.split('/').at(-1) ?? ''
  }

  async operator (...argv: readonly string[]): Promise<string> {
    const { exitCode, out, err } = await say(['inbox', ...argv, ...this.#where.args], this.#where.env)
    assert.equal(exitCode, 0, err)
    return out
  }

  async metric (name: string): Promise<number> {
    return totalOf(await metricsOf(this.#gateway.adminUrl), name)
  }
}

async function startDesk (t: TestContext, database: string | null): Promise<Desk> {
  const dataDir = directory(t)
  let desk: Desk | null = null
  const witness = await startWitness((seen, response) => {
    const text = seen.body.toString()
    const isRefused = text.startsWith('poison') && desk?.isMended !== true
    if (!isRefused) desk?.taken.push(text)
    response.writeHead(isRefused ? 422 : 204, { 'Content-Type': 'text/plain' }).end(isRefused ? `no such order: ${text}` : '')
  })
  t.after(() => witness.close())
  const gateway = await startProcess(t, { config: configOf(witness.url, database), args: ['--data-dir', dataDir] })
  desk = new Desk(gateway, database === null ? { args: ['--data-dir', dataDir], env: {} } : { args: [], env: { DATABASE_URL: database } })
  return desk
}

function poisonMessages (databaseOf: () => Promise<string | null>): void {
  test('a poison message ends dead with its last answer; its group goes on, or stops until an operator retries or discards it', async (t) => {
    const desk = await startDesk(t, await databaseOf())
    await endsDead(desk)
    await isSeen(desk)
    await goesOn(desk)
  })
}

async function endsDead (desk: Desk): Promise<void> {
  for (const [route, group] of [['skipping', 's'], ['stopping', 'r'], ['stopping', 'd']] as const) {
    await desk.send(route, group, `poison-${group}`)
    await desk.send(route, group, `next-${group}`)
  }
  for (const group of ['s', 'r', 'd']) {
    const { attempts, lastError, answer, nextAttemptAt } = await desk.until(`poison-${group}`, 'dead')
    assert.deepEqual(
      [attempts, lastError, answer?.code, answer?.body, nextAttemptAt],
      [ATTEMPTS_MAX, 'ATTEMPTS_SPENT HTTP_422', 422, `no such order: poison-${group}`, null]
    )
  }
  await desk.until('next-s', 'delivered')
  // Whoever passes over a group that stands still has come by it.
  await desk.send('stopping', 'another', 'one-of-another')
  await desk.until('one-of-another', 'delivered')
  for (const group of ['r', 'd']) {
    assert.deepEqual([(await desk.told(`next-${group}`)).state, (await desk.told(`next-${group}`)).nextAttemptAt], ['waiting', null])
  }
  assert.deepEqual(desk.taken.toSorted(), ['next-s', 'one-of-another'])
  // To its sender a dead message is one that was accepted.
  assert.equal((await desk.send('stopping', 'r', 'poison-r')).headers['idempotency-status'], 'accepted')
}

async function isSeen (desk: Desk): Promise<void> {
  const listed = (await desk.operator('list', '--state', 'dead', '--json')).split('\n').map((line) =>
    (JSON.parse(line) as { id: string }).id)
  assert.deepEqual(listed, ['poison-s', 'poison-r', 'poison-d'].map((name) => desk.idOf(name)))
  const shown = await desk.operator('show', desk.idOf('poison-r'))
  for (const line of [
    /^state: +dead$/m,
    /^error: +ATTEMPTS_SPENT HTTP_422$/m,
    /^last status: +422$/m,
    /^answer: +422, body of 23 bytes$/m
  ]) {
    assert.match(shown, line)
  }
  await eventually(async () =>
    await desk.metric('onceway_inbox_messages{route="stopping",state="dead"}') === 2, 'the dead are counted', LONGEST_MS)
  assert.equal(await desk.metric('onceway_inbox_deliveries_total{route="stopping",result="dead"}'), 2)
  assert.equal(await desk.metric('onceway_inbox_deliveries_total{route="skipping",result="dead"}'), 1)
}

async function goesOn (desk: Desk): Promise<void> {
  await desk.operator('retry', desk.idOf('poison-r'), ...WHY)
  await desk.until('poison-r', 'dead', ({ attempts }) => attempts === 2 * ATTEMPTS_MAX)
  assert.equal((await desk.told('next-r')).state, 'waiting', 'it is as poisonous as before, and its group stops as before')
  await desk.operator('discard', desk.idOf('poison-d'), ...WHY)
  await desk.until('next-d', 'delivered')
  assert.deepEqual([(await desk.told('poison-d')).state, (await desk.told('next-r')).state], ['discarded', 'waiting'])
  desk.isMended = true
  await desk.operator('retry', '--all', '--state', 'dead', '--route', 'stopping', ...WHY)
  await desk.until('next-r', 'delivered')
  assert.equal((await desk.told('poison-r')).state, 'delivered')
  assert.deepEqual(desk.taken.filter((text) => text.endsWith('-r')), ['poison-r', 'next-r'])
  await eventually(async () =>
    await desk.metric('onceway_inbox_messages{route="stopping",state="dead"}') === 0, 'none of them is dead any more', LONGEST_MS)
}

describe('on the embedded store', () => {
  poisonMessages(async () => null)
})

describe('on Postgres', needs('own postgres'), () => {
  let postgres: PostgresServer
  before(async () => { postgres = await startPostgres() })
  after(async () => { await postgres.stop() })
  poisonMessages(async () => postgres.createDatabase('poison'))
})
