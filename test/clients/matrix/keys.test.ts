/** What docs/guides/clients.md says of where each SDK takes its key from. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import Stripe from 'stripe'
import { startUpstream } from './upstream.ts'
import { portOf } from './world.ts'

async function keyThatComes (t: TestContext, send: (url: string) => Promise<unknown>): Promise<string | string[] | undefined> {
  const { witness } = await startUpstream()
  t.after(async () => witness.close())
  await send(witness.url)
  return witness.seen[0]?.headers['idempotency-key']
}

const messages = [{ role: 'user' as const, content: 'hello' }]

test('openai: the option idempotencyKey of a call sends nothing, so the key is set as a header', async (t) => {
  const sent = await keyThatComes(
    t,
    async (url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: 'of-nobody' }).chat.completions.create({ model: 'gpt-5', messages }, {
      idempotencyKey: 'order-17'
    })
  )
  assert.equal(sent, undefined)
})

test('anthropic: the option idempotencyKey of a call sends nothing, so the key is set as a header', async (t) => {
  const sent = await keyThatComes(t, async (url) => new Anthropic({ baseURL: url, apiKey: 'of-nobody' }).messages.create(
    { model: 'claude-opus-5-5', max_tokens: 100, messages },
    { idempotencyKey: 'order-17' }
  ))
  assert.equal(sent, undefined)
})

test('stripe: without a key of the caller, it makes one for each call', async (t) => {
  const sent = await keyThatComes(
    t,
    async (url) => new Stripe('sk_test_of_nobody', { host: '127.0.0.1', port: portOf(url), protocol: 'http' }).customers.create({
      name: 'Ada'
    })
  )
  assert.match(String(sent), /^stripe-node-retry-/)
})
