/**
 * Delivered messages of a time range are replayed by an operator at the admin port: the consumer of a real gateway gets exactly those once
 * more, in the order of their groups, and each says that it is a replay. When the time of a request is over, it is gone.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { directory, fileIn, say } from '../cli/world.ts'
import { hashOf, tokenLine } from '../../src/config/operator-tokens.ts'
import { call } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { needs } from '../harness/needs.ts'
import { startPostgres } from '../harness/postgres.ts'
import type { PostgresServer } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'

const TOKEN = `ow_${'t'.repeat(43)}`
/** On a busy machine. */
const LONGEST_MS = 30_000
const BRIEF_MS = 1_000
const SIZE = 6

const route = (name: string, keepDelivered: string): string => `
  - name: ${name}
    match: { path: /${name} }
    upstream: consumer
    idempotency:
      mode: inbox
      profile: relay
      scope: public
      key: { from: ["header:Idempotency-Key"], required: true }
      inbox: { order: "header:X-Group", keepDelivered: ${keepDelivered} }`

const configOf = (consumer: string, database: string | null, tokens: string): string => `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0, auth: { tokensFile: "${tokens}" } }
${database === null ? '' : `stores: { postgres: { url: "${database}" } }`}
drain: { delay: 0s, timeout: 5s }
upstreams: { consumer: { url: "${consumer}" } }
routes:${route('kept', '1h')}${route('brief', `${BRIEF_MS}ms`)}
`

interface Taken {
  readonly text: string
  readonly group: string
  readonly key: string
  readonly attempt: string
  readonly replay: string | undefined
}

async function startDesk (t: TestContext, database: string | null) {
  const taken: Taken[] = []
  const witness = await startWitness((seen, response) => {
    const text = (name: string): string => String(seen.headers[name] ?? '')
    const replay = seen.headers['onceway-replay'] as string | undefined
    const [group, key, attempt] = ['x-group', 'onceway-key', 'idempotency-attempt'].map(text) as [string, string, string]
    taken.push({ text: seen.body.toString(), group, key, attempt, replay })
    response.writeHead(204).end()
  })
  t.after(() => witness.close())
  const tokens = fileIn(t, 'tokens', `${tokenLine({ name: 'ada', role: 'operator', hash: hashOf(TOKEN) })}\n`)
  const gateway = await startProcess(t, { config: configOf(witness.url, database, tokens), args: ['--data-dir', directory(t)] })
  const tokenFile = fileIn(t, 'token', TOKEN)
  const send = async (name: string, texts: readonly string[]): Promise<string[]> => {
    const locations: string[] = []
    for (const text of texts) {
      // No client may say that its request is a replay.
      const headers = { 'Idempotency-Key': text, 'X-Group': `g${texts.indexOf(text) % 2}`, 'Onceway-Replay': 'true' }
      const answer = await call(gateway.url, `/${name}`, { headers, body: text })
      assert.equal(answer.status, 202)
      locations.push(answer.headers.location ?? '')
    }
    await eventually(async () =>
      (await Promise.all(locations.map(async (location) => (await told(location)).state))).every((state) => state === 'delivered'),
    `${texts.join(', ')} delivered`, LONGEST_MS)
    return locations
  }
  const told = async (location: string) =>
    (await call(gateway.url, location, { method: 'GET' })).json as { state: string, attempts: number, replayedAt?: string }
  const operator = async (...argv: readonly string[]) =>
    say(['inbox', ...argv, '--admin-url', gateway.adminUrl, '--token-file', tokenFile], {})
  return { taken, send, told, operator }
}

function replays (databaseOf: () => Promise<string | null>): void {
  test('a time range picks exactly what was accepted in it, and its consumer gets it again, in order, with Onceway-Replay', async (t) => {
    const { taken, send, told, operator } = await startDesk(t, await databaseOf())
    const batch = (name: string): string[] => Array.from({ length: SIZE }, (_, index) => `${name}${index}`)
    const [before] = [await send('kept', batch('a'))]
    await sleep(20)
    const from = new Date().toISOString()
    await sleep(20)
    const locations = await send('kept', batch('b'))
    await sleep(20)
    const to = new Date().toISOString()
    await sleep(20)
    await send('kept', batch('c'))
    const first = taken.splice(0)
    assert.equal(first.length, 3 * SIZE)
    assert.deepEqual([...new Set(first.map(({ replay }) => replay))], [undefined])

    const range = ['--route', 'kept', '--from', from, '--to', to]
    const { exitCode, out, err } = await operator('replay', '--all', ...range, '--why', 'they lost them')
    assert.equal(exitCode, 0, err)
    assert.match(out, new RegExp(`^${SIZE} of ${SIZE} messages in .* are delivered once more\\.$`))
    await eventually(() => taken.length >= SIZE, 'all of them are taken again', LONGEST_MS)
    const isSettled = async () => (await Promise.all(locations.map(told))).every(({ state }) => state === 'delivered')
    await eventually(isSettled, 'all of them are delivered again', LONGEST_MS)
    const byText = (one: Taken, other: Taken): number => one.text < other.text ? -1 : 1
    assert.deepEqual(
      taken.toSorted(byText),
      first.filter(({ text }) => text.startsWith('b')).map((each) => ({ ...each, attempt: '2', replay: 'true' })).toSorted(byText)
    )
    for (const group of ['g0', 'g1']) {
      const texts = taken.filter((each) => each.group === group).map(({ text }) => text)
      assert.deepEqual(texts, texts.toSorted(), 'in the order of their group')
    }
    const after = await told(locations[0] ?? '')
    assert.deepEqual([after.attempts, typeof after.replayedAt], [2, 'string'])
    assert.deepEqual([(await told(before?.[0] ?? '')).attempts, (await told(before?.[0] ?? '')).replayedAt], [1, undefined])
  })

  test('when its time is over the request is deleted, and a replay is refused', async (t) => {
    const { taken, send, operator } = await startDesk(t, await databaseOf())
    const [location = ''] = await send('brief', ['one'])
    const id = location.split('/').at(-1) ?? ''
    await eventually(async () => {
      const { out } = await operator('show', id, '--json')
      return (JSON.parse(out) as { requestKeptUntil: string | null }).requestKeptUntil === null
    }, 'the sweeper deletes the request', LONGEST_MS)
    const { exitCode, err } = await operator('replay', id, '--why', 'too late')
    assert.equal(exitCode, 1)
    assert.match(err, /The request of this message is gone/)
    const many = await operator('replay', '--all', '--route', 'brief', '--why', 'too late')
    assert.match(`${many.out}\n${many.err}`, /^0 of 1 messages .*\n1 refused: The request of this message is gone/)
    assert.equal(taken.length, 1)
  })
}

describe('on the embedded store', () => {
  replays(async () => null)
})

describe('on Postgres', needs('own postgres'), () => {
  let postgres: PostgresServer
  let databases = 0
  before(async () => { postgres = await startPostgres() })
  after(async () => { await postgres.stop() })
  replays(async () => postgres.createDatabase(`replays_${++databases}`))
})
