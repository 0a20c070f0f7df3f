/** Metrics of inboxes: what they hold, and the deliveries from them. */
import type { Registry } from 'prom-client'
import { declare, MS_PER_SECOND, REQUEST_BUCKETS } from './declare.ts'
import type { PerRoute } from './declare.ts'
import type { Meter } from '../ports/telemetry.ts'
import { DELIVERY_RESULTS, SIGNATURE_RESULTS } from './zeros.ts'

/** States of messages that are not delivered. */
export const MESSAGE_STATES = ['waiting', 'delivering', 'held', 'dead'] as const

/** Deliveries of one message. Most messages take one. The default limit (`inbox.maxAttempts`) is 50. */
const TRIES_BUCKETS = [1, 2, 3, 5, 8, 13, 21, 34, 55, 100]

/** The store reports these values, and all processes share the store. So they combine by max. */
export function inboxDepthMeter (registry: Registry): PerRoute<Pick<Meter, 'inbox' | 'kept' | 'keptDropped'>> {
  const { counter, labelledGauge } = declare(registry)
  const messages = labelledGauge(
    'onceway_inbox_messages',
    'Messages in the inbox that are not delivered, by state.',
    ['route', 'state'],
    'max'
  )
  const bytes = labelledGauge(
    'onceway_inbox_bytes',
    'Bytes of the requests of waiting, delivering, held and dead messages.',
    ['route'],
    'max'
  )
  const oldest = labelledGauge(
    'onceway_inbox_oldest_seconds',
    'Time since the oldest waiting, delivering or held message was accepted, or since its scheduled time. 0 if there is none.',
    ['route'],
    'max'
  )
  const kept = labelledGauge('onceway_inbox_kept_messages', 'Delivered messages whose requests are kept for replays.', ['route'], 'max')
  const keptBytes = labelledGauge('onceway_inbox_kept_bytes', 'Bytes of these requests.', ['route'], 'max')
  const dropped = counter(
    'onceway_inbox_kept_dropped_total',
    'Requests of delivered messages that were deleted early, because the route kept more than it may.',
    ['route']
  )
  return {
    begin: ({ name: route, delivers }) => {
      if (delivers !== true) return
      for (const state of MESSAGE_STATES) messages.inc({ route, state }, 0)
      for (const each of [bytes, oldest, kept, keptBytes, dropped]) each.inc({ route }, 0)
    },
    kept: (routes) => {
      for (const each of [kept, keptBytes]) each.reset()
      for (const { route, messages: count, bytes: size } of routes) {
        kept.set({ route }, count)
        keptBytes.set({ route }, size)
      }
    },
    keptDropped: (route, count) => { dropped.inc({ route }, count) },
    inbox: (depths) => {
      // Else a route whose inbox is empty would keep its last values.
      for (const each of [messages, bytes, oldest]) each.reset()
      for (const depth of depths) {
        for (const state of MESSAGE_STATES) messages.set({ route: depth.route, state }, depth[state])
        bytes.set({ route: depth.route }, depth.bytes)
        oldest.set({ route: depth.route }, (depth.oldestMs ?? 0) / MS_PER_SECOND)
      }
    }
  }
}

/** Consumers that fail. All processes share what the store knows of them, too. */
export function endpointMeter (registry: Registry): PerRoute<Pick<Meter, 'endpoints'>> {
  const { labelledGauge } = declare(registry)
  const failing = labelledGauge(
    'onceway_inbox_failing_seconds',
    'For how long no delivery was taken. 0 if the last one was.',
    ['route'],
    'max'
  )
  const paused = labelledGauge(
    'onceway_inbox_paused',
    '1 if the inbox is paused, by an operator or because its consumer fails.',
    ['route'],
    'max'
  )
  return {
    begin: ({ name: route, delivers }) => {
      if (delivers === true) for (const each of [failing, paused]) each.inc({ route }, 0)
    },
    endpoints: (health) => {
      for (const each of [failing, paused]) each.reset()
      for (const { route, failing: fails, pause } of health) {
        failing.set({ route }, (fails?.forMs ?? 0) / MS_PER_SECOND)
        paused.set({ route }, pause === null ? 0 : 1)
      }
    }
  }
}

export function inboxMeter (registry: Registry): PerRoute<Pick<Meter, 'signature' | 'delivery' | 'deliveryTries'>> {
  const { counter, histogram } = declare(registry)
  const signatures = counter('onceway_inbox_signatures_total', 'Checks of signatures, by result.', ['route', 'result'])
  const deliveries = counter('onceway_inbox_deliveries_total', 'Deliveries of messages, by result.', ['route', 'result'])
  const seconds = histogram(
    'onceway_inbox_delivery_duration_seconds',
    'Duration of one delivery, from the request for a connection to the answer.',
    ['route'],
    REQUEST_BUCKETS
  )
  const tries = histogram(
    'onceway_inbox_attempts',
    'Deliveries that a message took until it was delivered, dead or held.',
    ['route'],
    TRIES_BUCKETS
  )
  return {
    begin: ({ name: route, delivers, verifies }) => {
      if (verifies === true) for (const result of SIGNATURE_RESULTS) signatures.inc({ route, result }, 0)
      if (delivers === true) for (const result of DELIVERY_RESULTS) deliveries.inc({ route, result }, 0)
    },
    signature: (route, result) => { signatures.inc({ route, result }) },
    delivery: (route, result, ms) => {
      deliveries.inc({ route, result })
      if (ms !== null) seconds.observe(ms / MS_PER_SECOND, route)
    },
    deliveryTries: (route, count) => { tries.observe(count, route) }
  }
}
