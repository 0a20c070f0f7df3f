import { connect } from 'amqplib'
import type { Example } from './example.ts'
import { receiver } from './receiver.ts'

export const rabbitmq: Example = async (setting) => {
  const { stage, size } = setting
  const [server, { url, killUntil, verdict }] = await Promise.all([stage.ground.rabbit(), receiver('rabbitmq', {}, setting)])
  const publisher = await stage.program('rabbitmq/publisher.ts', { AMQP_URL: server.url, EVENTS: String(size) })
  const relay = await stage.program('rabbitmq/relay.ts', { AMQP_URL: server.url, GATEWAY_URL: url })
  const connection = await connect(server.url)
  stage.after(async () => connection.close())
  const channel = await connection.createChannel()

  const empty = async () => (await channel.checkQueue('events')).messageCount === 0
  const handedOver = async () => {
    relay.check()
    if (!publisher.ended || !await empty()) return false
    // The count excludes unacknowledged messages. The relay finishes them, or they return to the queue.
    await relay.stop()
    if (await empty()) return true
    await relay.start()
    return false
  }
  await killUntil(relay, handedOver)

  const events = Array.from({ length: size }, (_, number) => ({ id: `event-${number}`, group: null }))
  return verdict(events, [`RabbitMQ ${server.version}`])
}
