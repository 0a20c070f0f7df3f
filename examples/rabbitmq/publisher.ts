/** Publishes events with an id, some of them twice. The broker does not drop duplicates. */
import { connect } from 'amqplib'

const { AMQP_URL = 'amqp://127.0.0.1:5672', EVENTS = '1000' } = process.env
/** Every 15th event is published again, as after a connection that broke before the confirm. */
const TWICE_EVERY = 15

const connection = await connect(AMQP_URL)
const channel = await connection.createConfirmChannel()
await channel.assertQueue('events', { durable: true })
console.log('publisher runs')

const publish = (number: number): void => {
  const id = `event-${number}`
  channel.sendToQueue('events', Buffer.from(JSON.stringify({ id, type: 'order.placed' })), {
    messageId: id,
    persistent: true,
    contentType: 'application/json'
  })
}
for (let number = 0; number < Number(EVENTS); number++) publish(number)
await channel.waitForConfirms()
for (let number = 0; number < Number(EVENTS); number += TWICE_EVERY) publish(number)
await channel.waitForConfirms()
await connection.close()
