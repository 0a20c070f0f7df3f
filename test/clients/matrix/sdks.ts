/** SDKs of APIs, with the retries that they have by themselves: the caller sets a key, and where the API is. */
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import Stripe from 'stripe'
import type { Call, Client, Ending } from './client.ts'

async function ended (answer: Promise<unknown>): Promise<Ending> {
  try {
    return { status: 201, body: await answer }
  } catch (error) {
    const { status, statusCode, code, error: inner, type, constructor } = error as {
      status?: number
      statusCode?: number
      code?: string
      error?: object
      type?: string
      constructor: { name: string }
    }
    const answered = status ?? statusCode
    if (answered === undefined) return { error: type?.startsWith('Stripe') === true ? type : constructor.name }
    return { status: answered, body: { ...inner, ...code === undefined || code === null ? {} : { code } } }
  }
}

export const stripe: Client = {
  send: async ({ url, key, amount, timeoutMs }: Call) => {
    const { hostname, port } = new URL(url)
    // begin stripe
    const api = new Stripe('sk_test_of_nobody', { host: hostname, port, protocol: 'http', timeout: timeoutMs })
    const answer = api.customers.create({ name: `no. ${amount}` }, { idempotencyKey: key })
    // end stripe
    return ended(answer)
  }
}

export const openai: Client = {
  send: async ({ url, key, amount, timeoutMs }: Call) => {
    // begin openai
    const api = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'of-nobody', timeout: timeoutMs })
    const answer = api.chat.completions.create(
      { model: 'gpt-5', messages: [{ role: 'user', content: `no. ${amount}` }] },
      { headers: { 'Idempotency-Key': key } }
    )
    // end openai
    return ended(answer)
  }
}

export const anthropic: Client = {
  send: async ({ url, key, amount, timeoutMs }: Call) => {
    // begin anthropic
    const api = new Anthropic({ baseURL: url, apiKey: 'of-nobody', timeout: timeoutMs })
    const answer = api.messages.create(
      { model: 'claude-opus-5-5', max_tokens: 100, messages: [{ role: 'user', content: `no. ${amount}` }] },
      { headers: { 'Idempotency-Key': key } }
    )
    // end anthropic
    return ended(answer)
  }
}
