/** Creates the stream and the relay's durable consumer, and publishes events with an id. */
import { AckPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, nanos } from '@nats-io/transport-node'

const { NATS_URL = 'nats://127.0.0.1:4222', EVENTS = '1000' } = process.env
/** After this time JetStream delivers an unacknowledged message again. */
const ACK_WAIT_MS = 1_000
/** More than one relay handles at once, so that a new relay has work while messages of a dead one wait. */
const UNACKNOWLEDGED_MAX = 200
const AT_ONCE = 50

const connection = await connect({ servers: NATS_URL })
const manager = await jetstreamManager(connection)
await manager.streams.add({ name: 'EVENTS', subjects: ['events.>'] })
await manager.consumers.add('EVENTS', {
  durable_name: 'relay',
  ack_policy: AckPolicy.Explicit,
  ack_wait: nanos(ACK_WAIT_MS),
  max_ack_pending: UNACKNOWLEDGED_MAX
})
console.log('publisher runs')

const stream = jetstream(connection)
let published = 0
await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  while (published < Number(EVENTS)) {
    const id = `event-${published++}`
    // Sets the header Nats-Msg-Id. JetStream drops a duplicate only if it is published within two minutes.
    await stream.publish('events.orders', JSON.stringify({ id, type: 'order.placed' }), { msgID: id })
  }
}))
await connection.close()
