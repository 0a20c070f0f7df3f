/** Publishes events that have an id, and some of them twice: the broker does not mind. */
import { connect } from 'amqplib'

const { AMQP_URL = 'amqp://127.0.0.1:5672', EVENTS = '1000' } = process.env
/** Every so many is published again, as by somebody whose connection broke before it was confirmed. */
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
