import { AckPolicy, DeliverPolicy, jetstreamManager } from '@nats-io/jetstream'
import { connect, nanos } from '@nats-io/transport-node'
import type { Example } from './example.ts'
import { moving } from './killer.ts'
import { receiver } from './receiver.ts'

/** At the end this part of the stream is delivered again. */
const AGAIN_SHARE = 1 / 20

export const nats: Example = async (setting) => {
  const { stage, size } = setting
  const [server, { url, progress, killUntil, verdict }] = await Promise.all([stage.ground.nats(), receiver('nats', {}, setting)])
  const publisher = await stage.program('nats/publisher.ts', { NATS_URL: server.url, EVENTS: String(size) })
  const relay = await stage.program('nats/relay.ts', { NATS_URL: server.url, GATEWAY_URL: url })
  const connection = await connect({ servers: server.url })
  stage.after(async () => connection.close())
  const { consumers, streams } = await jetstreamManager(connection)
  // The next example on this server creates the stream again.
  stage.after(async () => streams.delete('EVENTS'))

  const handedOver = async () => {
    relay.check()
    if (!publisher.ended) return false
    const { num_pending: waiting, num_ack_pending: unacknowledged } = await consumers.info('EVENTS', 'relay')
    return waiting + unacknowledged === 0
  }
  await killUntil(relay, handedOver)
  // An operator creates the consumer again, from a point that is too early.
  await relay.kill()
  const from = Math.floor(size * (1 - AGAIN_SHARE)) + 1
  await consumers.delete('EVENTS', 'relay')
  await consumers.add('EVENTS', {
    durable_name: 'relay',
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(1_000),
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: from
  })
  await relay.start()
  await moving(progress, handedOver)

  const events = Array.from({ length: size }, (_, number) => ({ id: `event-${number}`, group: null }))
  return verdict(events, [`${size - from + 1} delivered again by hand`, `NATS ${server.version}`])
}
