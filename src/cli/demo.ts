/** `onceway demo`: runs the gateway, a toy payments upstream and a retrying client in one process, and prints each step. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startApp } from '../process/app.ts'
import { defaultConfig } from '../config/load.ts'
import { startDemoUpstream } from '../demo/upstream.ts'
import { readOptions } from './command.ts'
import type { Command, Terminal } from './command.ts'

/** Delay of the payment that is sent twice at once. It must be in flight when the second copy arrives. */
const SLOW_MS = 1_000

export const demo: Command = {
  help: `usage: onceway demo

Starts a gateway in front of a toy payments API that is not idempotent. Sends it what clients send when networks fail:
a retry, two copies at once, and a key with another request. Prints every answer and the number of payments made.

example:
  onceway demo`,
  run: runDemo
}

async function runDemo (args: readonly string[], terminal: Terminal): Promise<number> {
  readOptions(args, {})
  const dataDir = mkdtempSync(join(tmpdir(), 'onceway-demo-'))
  const upstream = await startDemoUpstream()
  try {
    const env = {
      ONCEWAY_ADMIN_PORT: '0',
      ONCEWAY_LISTEN_HOST: '127.0.0.1',
      ONCEWAY_LOG_LEVEL: 'silent',
      ONCEWAY_DRAIN_DELAY: '0s',
      ONCEWAY_DRAIN_TIMEOUT: '1s'
    }
    const app = await startApp(defaultConfig({ upstreamUrl: upstream.url, port: 0, dataDir, env }), { announce: () => {} })
    try {
      return await play(app.url, upstream.url, terminal)
    } finally {
      await app.stop()
    }
  } finally {
    await upstream.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
}

interface Reply { readonly status: number, readonly outcome: string, readonly text: string }

async function play (gatewayUrl: string, upstreamUrl: string, { out, err }: Terminal): Promise<number> {
  const show = (what: string, reply: Reply) => { out(`${what.padEnd(52)} ${reply.status} ${reply.outcome.padEnd(10)} ${reply.text}`) }
  out(`A toy payments API at ${upstreamUrl}; onceway before it at ${gatewayUrl}.\n`)
  show('POST, key order-1', await pay(gatewayUrl, 'order-1', 100))
  show('the answer got lost, the client sends it again', await pay(gatewayUrl, 'order-1', 100))
  show('the same key with another amount', await pay(gatewayUrl, 'order-1', 999))
  const [first, second] = await Promise.all([pay(gatewayUrl, 'order-2', 250, SLOW_MS), pay(gatewayUrl, 'order-2', 250, SLOW_MS)])
  show('key order-2, a copy', first)
  show('key order-2, another copy at the same moment', second)
  show('it comes back a little later', await pay(gatewayUrl, 'order-2', 250, SLOW_MS))
  const { payments } = await (await fetch(`${upstreamUrl}/v1/payments`)).json() as { payments: unknown[] }
  out(`\nRequests sent by clients: 6. Payments made: ${payments.length}.`)
  if (payments.length === 2) return 0
  err('onceway: there should be 2 payments.')
  return 1
}

async function pay (url: string, key: string, amount: number, delayMs = 0): Promise<Reply> {
  const answer = await fetch(`${url}/v1/payments?delay=${delayMs}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ amount, currency: 'EUR' })
  })
  const body = await answer.json() as { id?: string, title?: string }
  return { status: answer.status, outcome: answer.headers.get('idempotency-status') ?? '-', text: body.id ?? body.title ?? '' }
}
