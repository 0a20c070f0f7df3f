/** Signed deliveries, as the libraries of consumers read them. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { Webhook as SvixWebhook } from 'svix'
import { eventually } from '../harness/eventually.ts'
import { startGateway } from '../harness/gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Seen } from '../harness/witness.ts'
import { inboxRoute, message } from './world.ts'

const [NEW, OLD, FOREIGN] = [1, 2, 3].map((byte) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`) as [string, string, string]

/** Throws unless both libraries take it. */
function verify (secret: string, { body, headers }: Seen): void {
  const fields = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
  assert.deepEqual(new Webhook(secret).verify(body.toString(), fields), JSON.parse(body.toString()))
  new SvixWebhook(secret).verify(body.toString(), fields)
}

test('every delivery is signed under both secrets, with its own time; a library that knows either takes it, and no other', async (t) => {
  const witness = await startWitness((_seen, response, _socket, count) => { response.writeHead(count < 3 ? 503 : 200).end() })
  t.after(async () => { await witness.close() })
  const route = inboxRoute({ sign: [NEW, OLD], backoff: { firstMs: 1, longestMs: 2_000, scheduleMs: [1_200, 20] } }, {}, witness.url)
  const { gateway, world } = await startGateway(t, { routes: [route] })
  const written = message('{"event":"paid"}')
  // A sender's own signature is not passed off as ours.
  const forged = [
    'Webhook-Signature', 'v1,forged', 'svix-id', 'forged', 'svix-timestamp', '1', 'svix-signature', 'v1,forged',
    'Webhook_Id', 'forged', 'svix.id', 'forged'
  ]
  const headers = [...written.request.headers, ...forged]
  await world.inbox.accept({ ...written, request: { ...written.request, headers } })
  gateway.onMessage()
  await eventually(async () => (await world.inbox.look(written.id))?.state === 'delivered', 'it is delivered')
  assert.equal(witness.seen.length, 3)
  for (const seen of witness.seen) {
    for (const secret of [NEW, OLD]) verify(secret, seen)
    assert.throws(() => { verify(FOREIGN, seen) })
    assert.throws(() => { verify(NEW, { ...seen, body: Buffer.from('{"event":"refunded"}') }) })
    assert.equal(seen.headers['webhook-id'], written.id.toString('base64url'))
    assert.deepEqual(Object.keys(seen.headers).filter((name) => /^(?:svix|webhook[_.])/.test(name)), [])
  }
  const times = witness.seen.map(({ headers: { 'webhook-timestamp': time } }) => Number(time))
  assert.ok((times[1] ?? 0) > (times[0] ?? 0), 'a retry has the time of the retry')
})

test('without `sign` the sender\'s own fields go on', async (t) => {
  const witness = await startWitness((_seen, response) => { response.end() })
  t.after(async () => { await witness.close() })
  const { gateway, world } = await startGateway(t, { routes: [inboxRoute({}, {}, witness.url)] })
  const written = message('{}')
  await world.inbox.accept({ ...written, request: { ...written.request, headers: ['webhook-id', 'msg_1'] } })
  gateway.onMessage()
  await eventually(async () => (await world.inbox.look(written.id))?.state === 'delivered', 'it is delivered')
  assert.equal(witness.seen[0]?.headers['webhook-id'], 'msg_1')
})
