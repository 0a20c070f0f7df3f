import { readFileSync, writeFileSync } from 'node:fs'
import { eventually } from '../../test/harness/eventually.ts'
import { countAt, duplicatesAt } from './door.ts'
import type { Example } from './example.ts'
import { judge } from './judge.ts'
import { killUntilFinished, moving } from './killer.ts'

/** Least and most deliveries between two kills of the relay. */
const BETWEEN_KILLS = [200, 1_000] as const
/** At the end the log is rewound by this part. */
const AGAIN_SHARE = 1 / 20
/** The consumer stays down until it has missed this many requests, which is one batch of the relay. */
const MISSED_MIN = 50
const MISSED_MS_MAX = 30_000

export const fanOut: Example = async ({ stage, size, random }) => {
  const [billing, shipping] = await Promise.all([stage.consumer(), stage.consumer()])
  const ids = Array.from({ length: size }, (_, number) => `event-${number}`)
  const events = stage.lines('events.ndjson').path
  writeFileSync(events, ids.map((id) => `${JSON.stringify({ id, type: 'order.placed' })}\n`).join(''))
  const position = stage.lines('position').path
  writeFileSync(position, '0')
  const gateway = await stage.gateway('fan-out/onceway.yaml', {
    ONCEWAY_UPSTREAMS_BILLING_URL: billing.url,
    ONCEWAY_UPSTREAMS_SHIPPING_URL: shipping.url
  })
  const relay = await stage.program('fan-out/relay.ts', { GATEWAY_URL: gateway.url, EVENTS: events, POSITION: position })

  const progress = () => billing.ledger.count() + shipping.ledger.count()
  const finished = () => {
    relay.check()
    return Number(readFileSync(position, 'utf8')) >= size
  }
  const refused = async () => countAt(gateway, 'unsent')
  let blows = 0
  const strike = async (): Promise<void> => {
    await relay.kill()
    // At the first kill, one consumer is stopped. It starts again when it has missed enough requests.
    const outage = blows++ === 0
    if (outage) await shipping.program.stop()
    await relay.start()
    if (!outage) return
    await eventually(async () => await refused() >= MISSED_MIN, 'a consumer that is down is missed', MISSED_MS_MAX)
    await shipping.program.start()
  }
  const kills = await killUntilFinished({ random, progress, between: BETWEEN_KILLS, strike, finished })
  await relay.kill()
  writeFileSync(position, String(Math.floor(size * (1 - AGAIN_SHARE))))
  await relay.start()
  await moving(progress, finished)

  const duplicates = await duplicatesAt(gateway)
  const missed = await refused()
  const [one, other] = [billing, shipping].map(({ ledger }) => judge(ids, ledger.all(), duplicates, []))
  if (one === undefined || other === undefined) throw new Error('there are two consumers')
  return {
    messages: size,
    duplicates,
    lost: one.lost + other.lost,
    twice: one.twice + other.twice,
    wrong: [...one.wrong, ...other.wrong, ...missed >= MISSED_MIN ? [] : ['no consumer was ever down']],
    remarks: [
      `two consumers, ${progress()} deliveries`,
      `relay killed ${kills + 1} times`,
      `${missed} requests came while a consumer was down`
    ]
  }
}
