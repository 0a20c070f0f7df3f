/**
 * A toy payments API that is not idempotent: every POST makes a new payment. It gives `npm start` something to guard. Its state is in
 * memory.
 */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { randomUUID } from 'node:crypto'

/** Most payments that are kept for GET. The oldest is dropped first. */
const PAYMENTS_MAX = 1_000
const BODY_BYTES_MAX = 64 * 1024
/** Maximum of `?delay=` of a POST. */
const DELAY_MAX_MS = 60_000

interface Payment { readonly id: string, readonly amount: unknown, readonly currency: unknown, readonly createdAt: string }

export interface DemoUpstream { readonly url: string, readonly port: number, readonly stop: () => Promise<void> }

export async function startDemoUpstream (options: { readonly port?: number, readonly host?: string } = {}): Promise<DemoUpstream> {
  const payments = new Map<string, Payment>()
  const server = createServer((request, response) => { void answer(payments, request, response) })
  server.listen(options.port ?? 0, options.host ?? '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    stop: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  }
}

async function answer (payments: Map<string, Payment>, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://demo.invalid')
  try {
    if (request.method === 'POST' && url.pathname === '/v1/payments') return await pay(payments, request, response, url)
    if (request.method === 'GET' && url.pathname === '/v1/payments') return send(response, 200, { payments: Array.from(payments.values()) })
    send(response, 404, { error: 'not found; try POST or GET /v1/payments' })
  } catch {
    send(response, 400, { error: 'the body must be a small JSON object like {"amount": 100, "currency": "EUR"}' })
  }
}

async function pay (payments: Map<string, Payment>, request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
  const { amount, currency } = JSON.parse(await bodyOf(request)) as Record<string, unknown>
  const delayMs = Math.min(DELAY_MAX_MS, Number(url.searchParams.get('delay') ?? 0) || 0)
  if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs))
  const payment: Payment = { id: `pay_${randomUUID()}`, amount, currency, createdAt: new Date().toISOString() }
  payments.set(payment.id, payment)
  if (payments.size > PAYMENTS_MAX) payments.delete(payments.keys().next().value as string)
  send(response, 201, payment, { Location: `/v1/payments/${payment.id}` })
}

async function bodyOf (request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > BODY_BYTES_MAX) throw new Error('too large')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function send (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  if (response.headersSent) return
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers })
  response.end(`${JSON.stringify(body)}\n`)
}
