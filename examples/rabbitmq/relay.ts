/** Sends messages of a queue by HTTP, and acknowledges each after a 2xx only. Several relays may run. */
import { setTimeout as pause } from 'node:timers/promises'
import { connect } from 'amqplib'
import type { ConsumeMessage } from 'amqplib'

const { AMQP_URL = 'amqp://127.0.0.1:5672', GATEWAY_URL = 'http://127.0.0.1:8080' } = process.env
const AT_ONCE = 50
const AGAIN_MS = 200
const TIMEOUT_MS = 10_000

const connection = await connect(AMQP_URL)
const channel = await connection.createChannel()
await channel.prefetch(AT_ONCE)
const underWay = new Set<Promise<void>>()
const { consumerTag } = await channel.consume('events', (message) => {
  if (message === null) return
  const handing = handOn(message)
  underWay.add(handing)
  void handing.then(() => { underWay.delete(handing) })
})
console.log('relay runs')
// Finishes the messages in flight. RabbitMQ delivers unacknowledged messages to another relay.
process.once('SIGTERM', () => {
  void channel.cancel(consumerTag).then(async () => Promise.all(underWay)).then(async () => connection.close())
})

async function handOn (message: ConsumeMessage): Promise<void> {
  if (await arrives(message)) {
    channel.ack(message)
    return
  }
  await pause(AGAIN_MS)
  channel.nack(message)
}

async function arrives ({ content, properties }: ConsumeMessage): Promise<boolean> {
  try {
    const answer = await fetch(`${GATEWAY_URL}/events`, {
      method: 'POST',
      headers: { 'Idempotency-Key': String(properties.messageId), 'Content-Type': 'application/json' },
      body: new Uint8Array(content),
      signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    await answer.text()
    return answer.ok
  } catch {
    return false
  }
}
