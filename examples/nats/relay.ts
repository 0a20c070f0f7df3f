/** Sends messages of JetStream by HTTP, and acknowledges each after a 2xx only. Several relays may run. */
import { jetstream } from '@nats-io/jetstream'
import type { JsMsg } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'

const { NATS_URL = 'nats://127.0.0.1:4222', GATEWAY_URL = 'http://127.0.0.1:8080' } = process.env
const AT_ONCE = 50
const AGAIN_MS = 200
const TIMEOUT_MS = 10_000

const connection = await connect({ servers: NATS_URL })
const consumer = await jetstream(connection).consumers.get('EVENTS', 'relay')
console.log('relay runs')
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  for await (const message of await consumer.consume({ max_messages: 1 })) await handOn(message)
}))

async function handOn (message: JsMsg): Promise<void> {
  if (await arrives(message)) message.ack()
  else message.nak(AGAIN_MS)
}

async function arrives (message: JsMsg): Promise<boolean> {
  try {
    const answer = await fetch(`${GATEWAY_URL}/events`, {
      method: 'POST',
      headers: { 'Nats-Msg-Id': message.headers?.get('Nats-Msg-Id') ?? '', 'Content-Type': 'application/json' },
      body: message.data as Uint8Array<ArrayBuffer>,
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    await answer.text()
    return answer.ok
  } catch {
    return false
  }
}
