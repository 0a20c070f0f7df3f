/**
 * The routes of docs/guides/webhook-recipes.md that have an inbox, on a gateway with that configuration: who gets in,
 * and what comes out.
 */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test } from 'node:test'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { eventually } from '../harness/eventually.ts'
import { startProcess } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Seen, Witness } from '../harness/witness.ts'
import * as send from './identities.ts'
import type { Sent } from './identities.ts'
import { inboxRecipes, RECIPES_TEXT } from './recipes.ts'
import { STAND_INS } from './stand-ins.ts'
import type { Reaction } from './stand-ins.ts'

/** As long as Standard Webhooks wants it. */
const SECRET = 'the secret of this test here'
const STANDARD_SECRET = `whsec_${Buffer.from(SECRET).toString('base64')}`
const FORGED = 'of somebody else'
const DELIVERED_MS_MAX = 30_000

const nowSeconds = (): number => Math.floor(Date.now() / 1_000)
const hmac = (secret: string, text: string, encoding: 'hex' | 'base64'): string =>
  createHmac('sha256', secret).update(text).digest(encoding)

/** As it would come from the sender, signed with this secret now. */
const SIGNED: Readonly<Record<string, { readonly path: string, readonly scheme: string, readonly sent: (secret: string) => Sent }>> = {
  Stripe: {
    path: '/inbox/stripe',
    scheme: 'stripe',
    sent: (secret) => {
      const { body } = send.stripe({ message: 1, attempt: 1, nowMs: 0 })
      return { headers: ['Stripe-Signature', `t=${nowSeconds()},v1=${hmac(secret, `${nowSeconds()}.${body}`, 'hex')}`], body }
    }
  },
  'Standard Webhooks': {
    path: '/inbox/standard-webhooks',
    scheme: 'standard-webhooks',
    sent: (secret) => {
      const body = '{"type":"order.paid"}'
      return {
        headers: [
          'webhook-id',
          'msg_1',
          'webhook-timestamp',
          String(nowSeconds()),
          'webhook-signature',
          `v1,${hmac(secret, `msg_1.${nowSeconds()}.${body}`, 'base64')}`
        ],
        body
      }
    }
  },
  GitHub: {
    path: '/inbox/github',
    scheme: 'github',
    sent: (secret) => ({
      headers: ['X-GitHub-Delivery', '72d3162e', 'X-Hub-Signature-256', `sha256=${hmac(secret, '{"ref":"main"}', 'hex')}`],
      body: '{"ref":"main"}'
    })
  },
  Shopify: {
    path: '/inbox/shopify',
    scheme: 'shopify',
    sent: (secret) => ({
      headers: [
        'X-Shopify-Topic',
        'orders/paid',
        'X-Shopify-Event-Id',
        'b54557e4',
        'X-Shopify-Hmac-Sha256',
        hmac(secret, '{"id":820982911946154508}', 'base64')
      ],
      body: '{"id":820982911946154508}'
    })
  }
}

const cloudEvent = (id: string): object => ({ specversion: '1.0', type: 'order.paid', source: '/orders', id })

/** Three events in two requests that overlap, and what the consumer gets of them. */
const BATCHED: Readonly<Record<string, {
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: (...ids: readonly string[]) => string
  readonly item: (id: string) => string
}>> = {
  CloudEvents: {
    path: '/inbox/cloudevents',
    headers: { 'Content-Type': 'application/cloudevents-batch+json' },
    body: (...ids) => JSON.stringify(ids.map(cloudEvent)),
    item: (id) => JSON.stringify(cloudEvent(id))
  },
  'Event Grid': {
    path: '/inbox/event-grid',
    headers: { 'Content-Type': 'application/json', 'aeg-event-type': 'Notification' },
    body: (...ids) => JSON.stringify(ids.map((id) => ({ id, data: {} }))),
    item: (id) => JSON.stringify([{ id, data: {} }])
  },
  'SQS records': {
    path: '/inbox/sqs',
    headers: { 'Content-Type': 'application/json' },
    body: (...ids) => JSON.stringify({ Records: ids.map((messageId) => ({ messageId, body: '{}' })) }),
    item: (id) => JSON.stringify({ Records: [{ messageId: id, body: '{}' }] })
  },
  'a Kafka sink': {
    path: '/inbox/kafka-sink',
    headers: { 'Content-Type': 'application/json' },
    body: (...ids) => JSON.stringify(ids.map((id) => ({ id, customer: 1 }))),
    item: (id) => JSON.stringify({ id, customer: 1 })
  }
}

describe('the recipes of the inbox', () => {
  let witness: Witness
  let url: string
  const ends: Array<() => Promise<void>> = []

  before(async () => {
    witness = await startWitness((_seen, response) => { response.writeHead(204).end() })
    const secrets = {
      STRIPE_WEBHOOK_SECRET: SECRET,
      STANDARD_WEBHOOKS_SECRET: STANDARD_SECRET,
      GITHUB_WEBHOOK_SECRET: SECRET,
      SHOPIFY_CLIENT_SECRET: SECRET
    }
    const config = inboxRecipes().replaceAll('http://127.0.0.1:3000', witness.url)
    const gateway = await startProcess({ after: (end) => { ends.push(end) } }, {
      config,
      args: ['--port', '0'],
      env: { ONCEWAY_ADMIN_PORT: '0', ...secrets }
    })
    url = gateway.url
  })
  after(async () => {
    for (const end of ends) await end()
    await witness.close()
  })

  const at = (path: string): Seen[] => witness.seen.filter(({ target }) => target === path)
  const delivered = async (path: string, count: number): Promise<Seen[]> => {
    await eventually(() => at(path).length >= count, `${count} deliveries at ${path}`, DELIVERED_MS_MAX)
    return at(path)
  }
  const post = async (path: string, { headers, body }: Sent): Promise<Called> => {
    const fields = Object.fromEntries(headers.flatMap((name, index) => index % 2 === 0 ? [[name, headers[index + 1] ?? '']] : []))
    return call(url, path, { headers: { 'Content-Type': 'application/json', ...fields }, body })
  }

  for (const [sender, { path, scheme, sent }] of Object.entries(SIGNED)) {
    test(`${sender}: what is signed is accepted, again as the same message, and delivered once with a word for it; what is not is refused`, async () => {
      const forged = await post(path, sent(FORGED))
      assert.deepEqual([forged.status, forged.json.code], [401, 'signature-invalid'])
      const [first, again] = [await post(path, sent(SECRET)), await post(path, sent(SECRET))]
      assert.deepEqual([first.status, again.status, again.text], [202, 202, first.text])
      const [seen] = await delivered(path, 1)
      assert.equal(seen?.headers['onceway-verified'], scheme)
      assert.equal(seen?.headers['onceway-key'], first.json.id)
      assert.equal(seen?.body.toString(), sent(SECRET).body)
      assert.equal(at(path).length, 1)
    })
  }

  for (const [sender, { path, headers, body, item }] of Object.entries(BATCHED)) {
    test(`${sender} in batches: every event is delivered as if it had come alone, and once although it is in two batches`, async () => {
      for (const ids of [['a', 'b'], ['b', 'c']]) assert.equal((await call(url, path, { headers, body: body(...ids) })).status, 202)
      const seen = await delivered(path, 3)
      assert.deepEqual(seen.map((each) => each.body.toString()).sort(), ['a', 'b', 'c'].map(item))
      assert.equal(new Set(seen.map((each) => each.headers['onceway-key'])).size, 3)
    })
  }

  test('a sink that batches by customer has its order kept', () => {
    assert.deepEqual(
      at('/inbox/kafka-sink').map(({ body }) => body.toString()),
      ['a', 'b', 'c'].map((id) => JSON.stringify({ id, customer: 1 }))
    )
  })

  test('Debezium: the next event of an aggregate waits behind the retry of the one before', async () => {
    const path = '/inbox/debezium'
    witness.answer = (_seen, response, _socket) => { response.writeHead(at(path).length === 1 ? 500 : 204).end() }
    const told: number[] = []
    for (const message of [1, 2]) {
      const { headers, body } = send.debezium({ message, attempt: 1, nowMs: 0 })
      told.push((await post(path, { headers: [...headers, 'X-DEBEZIUM-AGGREGATEID', Buffer.from('7').toString('base64')], body })).status)
    }
    assert.deepEqual(told, [202, 202])
    const seen = await delivered(path, 3)
    assert.deepEqual(seen.map(({ body }) => /message-\d/.exec(body.toString())?.[0]), ['message-1', 'message-1', 'message-2'])
  })

  test('Dapr, and every other relay but sqsd, takes the 202 for a success', async () => {
    const { status, text } = await post('/inbox/cloudevents', send.cloudEventStructured({ message: 1, attempt: 1, nowMs: 0 }))
    const others = STAND_INS.filter(({ reaction }) => reaction({ status, retryAfterMs: null, body: text }) !== 'acknowledged')
    assert.deepEqual(others.map(({ route }) => route), ['sqsd'])
  })
})

const WORDS: Readonly<Record<Reaction, string>> = { acknowledged: 'done', again: 'again', 'given up': 'last word' }

test('the table of what relays do with the inbox\'s answers says of every relay what its stand-in does', () => {
  const [, table = ''] = /\| relay \| 202 \|[^\n]*\n\|[-|]+\n((?:\|[^\n]*\n)+)/.exec(RECIPES_TEXT) ?? []
  const said = new Map(table.trimEnd().split('\n').flatMap((row) => {
    const [relays = '', ...words] = row.split('|').slice(1, -1).map((cell) => cell.trim())
    return relays.split(', ').map((relay) => [relay, words] as const)
  }))
  const does = STAND_INS.map(({ route, reaction }) => {
    const [accepted, away, unsigned, bad, reused] = [202, 503, 401, 400, 422].map((status) =>
      WORDS[reaction({ status, retryAfterMs: 1_000, body: '{"id":"a","location":"b"}' })]) as [string, string, string, string, string]
    return [route, [accepted, away, unsigned, bad === reused ? bad : `${bad}, ${reused}`]] as const
  })
  assert.deepEqual(said, new Map(does))
})

test('the SQL of a consumer that is asked again finds a key the second time', () => {
  const [schema = '', insert = ''] = Array.from(RECIPES_TEXT.matchAll(/```sql\n([\s\S]*?)```/g), ([, text]) => text)
  const database = new DatabaseSync(':memory:')
  database.exec(schema)
  const remember = database.prepare(insert)
  assert.deepEqual(['a', 'a', 'b'].map((key) => remember.run({ $1: key }).changes), [1, 0, 1])
})
