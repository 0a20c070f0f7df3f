import { AckPolicy, DeliverPolicy, jetstreamManager } from '@nats-io/jetstream'
import { connect, nanos } from '@nats-io/transport-node'
import { duplicatesAt } from './door.ts'
import type { Example } from './example.ts'
import { judge } from './judge.ts'
import { killUntilFinished, moving } from './killer.ts'

/** So many more executions between two kills of the relay, at least and at most. */
const BETWEEN_KILLS = [100, 500] as const
/** So large a part of the stream is delivered once more at the end. */
const AGAIN_SHARE = 1 / 20

export const nats: Example = async ({ stage, size, random }) => {
  const [server, consumer] = await Promise.all([stage.nats(), stage.consumer()])
  const gateway = await stage.gateway('nats', { ONCEWAY_UPSTREAMS_CONSUMER_URL: consumer.url })
  const publisher = await stage.program('nats/publisher.ts', { NATS_URL: server.url, EVENTS: String(size) })
  const relay = await stage.program('nats/relay.ts', { NATS_URL: server.url, GATEWAY_URL: gateway.url })
  const connection = await connect({ servers: server.url })
  stage.after(async () => connection.close())
  const { consumers } = await jetstreamManager(connection)

  const progress = () => consumer.ledger.count()
  const finished = async () => {
    relay.check()
    if (!publisher.ended) return false
    const { num_pending: waiting, num_ack_pending: unacknowledged } = await consumers.info('EVENTS', 'relay')
    return waiting + unacknowledged === 0
  }
  const kills = await killUntilFinished({ random, progress, between: BETWEEN_KILLS, strike: async () => relay.restart(), finished })
  // Somebody makes the consumer anew, from a point that is too early.
  await relay.kill()
  const from = Math.floor(size * (1 - AGAIN_SHARE)) + 1
  await consumers.delete('EVENTS', 'relay')
  await consumers.add('EVENTS', { durable_name: 'relay', ack_policy: AckPolicy.Explicit, ack_wait: nanos(1_000), deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from })
  await relay.start()
  await moving(progress, finished)

  const events = Array.from({ length: size }, (_, number) => `event-${number}`)
  return judge(events, consumer.ledger.all(), await duplicatesAt(gateway), [`NATS ${server.version}`, `relay killed ${kills + 1} times`, `${size - from + 1} delivered again by hand`])
}
