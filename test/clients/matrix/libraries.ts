/**
 * HTTP clients of Node. `…Plain`: as they come, or with the options that their documentation calls the defaults. The other
 * ones: with the lines that docs/guides/clients.md shows; it takes them from here.
 */
import axios from 'axios'
import type { AxiosInstance } from 'axios'
import axiosRetry from 'axios-retry'
import fetchRetry from 'fetch-retry'
import got from 'got'
import type { Got } from 'got'
import ky from 'ky'
import type { KyInstance } from 'ky'
import { Agent, request, RetryAgent } from 'undici'
import { parsed } from './client.ts'
import type { Call, Client, Ending } from './client.ts'

interface Thrown {
  readonly name: string
  readonly code?: string
  readonly statusCode?: number
  readonly data?: { readonly body?: unknown }
  readonly cause?: { readonly code?: string, readonly cause?: { readonly code?: string } }
  /** axios, got, ky. */
  readonly response?: { readonly status?: number, readonly statusCode?: number, readonly data?: unknown, readonly body?: unknown }
}

/** A client that throws an answer of 400 and more shows it in its error. */
function ended (thrown: unknown, body?: unknown): Ending {
  const { name, code, statusCode, response, cause } = thrown as Thrown
  const status = response?.status ?? response?.statusCode ?? statusCode
  // One that breaks in the middle of its body is shown with the status that it began with.
  if (status !== undefined && status >= 400) return { status, body: body ?? response?.data ?? parsed(String(response?.body)) }
  return { error: [name, code ?? cause?.code ?? cause?.cause?.code].filter(Boolean).join(' ').replace('TimeoutError 23', 'TimeoutError') }
}

const headersOf = ({ key }: Call): Record<string, string> => ({
  'Idempotency-Key': key,
  Authorization: 'Bearer of-nobody',
  'Content-Type': 'application/json'
})

function axiosClient (made: (timeout: number) => AxiosInstance): Client {
  return {
    send: async (call) => {
      try {
        const { status, data } = await made(call.timeoutMs).post(`${call.url}/orders`, { amount: call.amount }, {
          headers: headersOf(call)
        })
        return { status, body: data }
      } catch (error) {
        return ended(error)
      }
    }
  }
}

export const axiosPlain = axiosClient((timeout) => {
  const api = axios.create({ timeout })
  axiosRetry(api)
  return api
})

export const axiosTuned = axiosClient((timeout) => {
  // begin axios
  const api = axios.create({ timeout })
  axiosRetry(api, {
    retries: 3,
    shouldResetTimeout: true,
    retryDelay: axiosRetry.exponentialDelay,
    retryCondition: ({ response }) => response === undefined || [409, 429, 503].includes(response.status)
  })
  // end axios
  return api
})

function gotClient (api: Got): Client {
  return {
    send: async (call) => {
      try {
        const { statusCode, body } = await api.post(`${call.url}/orders`, {
          json: { amount: call.amount },
          headers: headersOf(call),
          timeout: { request: call.timeoutMs }
        })
        return { status: statusCode, body: parsed(body) }
      } catch (error) {
        return ended(error)
      }
    }
  }
}

export const gotPlain = gotClient(got)

export const gotTuned = gotClient(
  // begin got
  got.extend({ retry: { limit: 3, methods: ['POST'], statusCodes: [409, 429, 503] } })
  // end got
)

function kyClient (api: KyInstance): Client {
  return {
    send: async (call) => {
      try {
        const response = await api.post(`${call.url}/orders`, {
          json: { amount: call.amount },
          headers: headersOf(call),
          timeout: call.timeoutMs
        })
        return { status: response.status, body: await response.json() }
      } catch (error) {
        return ended(error, (error as Thrown).response === undefined ? undefined : (error as { data?: unknown }).data)
      }
    }
  }
}

export const kyPlain = kyClient(ky)

export const kyTuned = kyClient(
  // begin ky
  ky.create({
    retry: { limit: 3, methods: ['post'], statusCodes: [409, 429, 503], afterStatusCodes: [409, 429, 503], retryOnTimeout: true }
  })
  // end ky
)

function agentClient (made: (timeout: number) => RetryAgent): Client {
  return {
    send: async (call) => {
      const dispatcher = made(call.timeoutMs)
      try {
        const { statusCode, body } = await request(`${call.url}/orders`, {
          method: 'POST',
          headers: headersOf(call),
          body: JSON.stringify({ amount: call.amount }),
          dispatcher
        })
        return { status: statusCode, body: parsed(await body.text()) }
      } catch (error) {
        return ended(error)
      } finally {
        await dispatcher.destroy()
      }
    }
  }
}

export const agentPlain = agentClient((timeout) => new RetryAgent(new Agent({ headersTimeout: timeout })))

export const agentTuned = agentClient((timeout) =>
  // begin undici
  new RetryAgent(new Agent({ headersTimeout: timeout }), {
    methods: ['POST'],
    statusCodes: [409, 429, 503],
    errorCodes: ['ECONNRESET', 'ECONNREFUSED', 'EPIPE', 'UND_ERR_SOCKET', 'UND_ERR_HEADERS_TIMEOUT'],
    throwOnError: false
  })
  // end undici
)

type Fetch = (input: string, init: RequestInit) => Promise<Response>

function fetchClient (made: (timeout: number) => Fetch): Client {
  return {
    send: async (call) => {
      try {
        const response = await made(call.timeoutMs)(`${call.url}/orders`, {
          method: 'POST',
          headers: headersOf(call),
          body: JSON.stringify({ amount: call.amount })
        })
        return { status: response.status, body: parsed(await response.text()) }
      } catch (error) {
        return ended(error)
      }
    }
  }
}

export const fetchPlain = fetchClient((timeout) => {
  const api = fetchRetry(fetch)
  return async (input, init) => api(input, { ...init, signal: AbortSignal.timeout(timeout) })
})

export const fetchTuned = fetchClient((timeout) =>
  // begin fetch-retry
  fetchRetry(async (input, init) => fetch(input, { ...init, signal: AbortSignal.timeout(timeout) }), {
    retries: 3,
    retryOn: [409, 429, 503],
    retryDelay: (attempt, _error, response) => 1000 * (Number(response?.headers.get('retry-after')) || 2 ** attempt)
  })
  // end fetch-retry
)
