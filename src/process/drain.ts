/** The end of a process: it drains and closes, each step within its time (docs/guides/deploy-in-containers.md). */
import { SYSTEM_CLOCK } from './clock.ts'
import type { Config } from '../config/config.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { pause, withTimeout } from '../gateway/shared/timeout.ts'
import type { GuardedListener } from '../http/server.ts'
import type { Log } from '../ports/telemetry.ts'

/** Time to settle what was sent as indeterminate after `drain.timeout`: a statement or two. */
const CUT_OFF_MS = 5_000
/** Time for the last answers to reach their clients. */
const ANSWERS_MS = 500
const CLOSE_MS = 3_000
/** Time for the first request of each connection that was accepted just before the listener closed. */
const LAST_HEADS_MS = 500
/** Time for a head that is on its way. A streamed answer that began before the drain leaves its connection open. */
const END_IDLE_EVERY_MS = 1_000

/**
 * The process reports "not ready" and answers with `Connection: close` at once. It still serves for `drain.delay`.
 * Then it accepts no more connections, refuses new requests on those that it has, and waits for those in flight.
 */
export async function drain (
  config: Config,
  gateway: Gateway,
  { server, endIdle, cut }: GuardedListener,
  log: Pick<Log, 'info'>
): Promise<void> {
  if (gateway.drain.draining) return
  gateway.drain.advance('draining')
  log.info(
    {
      event: 'drain-started',
      executions: gateway.executionsInFlight,
      deliveries: gateway.drain.deliveries.size,
      delayMs: config.drain.delayMs,
      timeoutMs: config.drain.timeoutMs
    },
    'draining'
  )
  await pause(SYSTEM_CLOCK, config.drain.delayMs)
  // The listener closes before anything is refused: who connects now meets the next gateway, where a service manager keeps the socket.
  const closed = new Promise<void>((resolve) => { server.server.close(() => { resolve() }) })
  await Promise.race([closed, pause(SYSTEM_CLOCK, LAST_HEADS_MS)])
  gateway.drain.advance('refusing')
  const idling = setInterval(endIdle, END_IDLE_EVERY_MS).unref()
  const endsAt = performance.now() + config.drain.timeoutMs
  const finished = await gateway.idle(config.drain.timeoutMs)
  if (!finished) {
    log.info(
      { event: 'drain-timeout', executions: gateway.executionsInFlight, deliveries: gateway.drain.deliveries.size },
      'drain is over; what still runs is cut off'
    )
    gateway.cutOff()
    await gateway.idle(CUT_OFF_MS)
  }
  // A request that waits for an execution elsewhere keeps its connection open. At the end of the drain it gets an answer.
  if (!await withTimeout(SYSTEM_CLOCK, endsAt - performance.now(), closed.then(() => true)).then((ended) => ended === true)) {
    gateway.releaseWaiters()
  }
  await Promise.race([closed, pause(SYSTEM_CLOCK, ANSWERS_MS)])
  clearInterval(idling)
  cut()
}

/** Time from the signal until the data directory is free. It is longer only if a store hangs while it closes. */
export function longestDrainMs ({ drain: { delayMs, timeoutMs } }: Pick<Config, 'drain'>): number {
  return delayMs + LAST_HEADS_MS + timeoutMs + CUT_OFF_MS + ANSWERS_MS + CLOSE_MS
}

/** A store that hangs must not delay the end. Its last statements are in doubt either way. */
export async function withinCloseTime (closing: Promise<unknown>): Promise<void> {
  await Promise.race([closing, pause(SYSTEM_CLOCK, CLOSE_MS)])
}
