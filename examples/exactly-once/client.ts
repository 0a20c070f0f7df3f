/**
 * Two tenants with the same payment references, and so the same keys. Retries each payment at either gateway, with the same key, until it
 * gets an answer. ANSWERS: a file with one line per answer.
 */
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

const { GATEWAY_URLS = 'http://127.0.0.1:8080', PAYMENTS = '1000', ANSWERS = 'answers.txt' } = process.env
const TENANTS = ['ada', 'bob']
const AT_ONCE = 32
const TIMEOUT_MS = 10_000
/** Pause after a broken connection. After an answer, Retry-After sets the pause. */
const AGAIN_MS = 200
/** Every 19th payment is sent again after its answer. 19 is odd, so both tenants have some. */
const TWICE_EVERY = 19

const gateways = GATEWAY_URLS.split(',')
let sent = 0

console.log('client runs')
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  while (sent < Number(PAYMENTS)) await settle(sent++)
}))

async function settle (number: number): Promise<void> {
  const tenant = TENANTS[number % TENANTS.length] as string
  const reference = `order-${Math.floor(number / TENANTS.length)}`
  const payment = { reference, amount: 1 + number % 97 }
  const times = number % TWICE_EVERY === 0 ? 2 : 1
  for (let time = 0; time < times; time++) {
    appendFileSync(ANSWERS, `${JSON.stringify({ tenant, ...payment, ...await insist(tenant, payment, number) })}\n`)
  }
}

/** `heard`: the number of answers of gateways, the final one included. */
async function insist (
  tenant: string,
  payment: { readonly reference: string },
  first: number
): Promise<{ readonly heard: number, readonly answer: unknown }> {
  let heard = 0
  for (let turn = first; ; turn++) {
    try {
      const response = await send(gateways[turn % gateways.length] as string, tenant, payment)
      const answer: unknown = await response.json()
      heard++
      if (response.status !== 409 && response.status < 502) return { heard, answer }
      await pause(1000 * Number(response.headers.get('Retry-After') ?? 0) || AGAIN_MS)
    } catch {
      await pause(AGAIN_MS)
    }
  }
}

async function send (gateway: string, tenant: string, payment: { readonly reference: string }): Promise<Response> {
  return fetch(`${gateway}/v1/payments`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${tenant}`, 'Idempotency-Key': payment.reference, 'Content-Type': 'application/json' },
    body: JSON.stringify(payment),
    signal: AbortSignal.timeout(TIMEOUT_MS)
  })
}
