/** Metrics of connections that a process has: to upstreams and to stores. They are put together when the metrics are read. */
import type { Registry } from 'prom-client'
import { declare } from './declare.ts'
import type { Meter, PoolUse, StoreUse, Traffic } from '../ports/telemetry.ts'

export const TRAFFIC = ['guarded', 'passed'] as const satisfies readonly Traffic[]
export const CONNECTION_STATES = ['used', 'idle'] as const

/** `reads`: called before the metrics are read. A reload may have taken an upstream away, so every read begins anew. */
export function poolMeter (registry: Registry, reads: Array<() => void>): Pick<Meter, 'pools' | 'storeConnections'> {
  const ofUpstreams = upstreamGauges(registry)
  const { labelledGauge } = declare(registry)
  const connections = labelledGauge(
    'onceway_store_connections',
    'Open connections to a store, by purpose and by whether a statement uses them.',
    ['store', 'purpose', 'state']
  )
  const queue = labelledGauge('onceway_store_queue', 'Operations that wait for a connection or a batch.', ['store', 'purpose'])
  const pools: Array<{ readonly traffic: Traffic, readonly read: () => readonly PoolUse[] }> = []
  const stores: Array<{ readonly store: string, readonly read: () => readonly StoreUse[] }> = []
  reads.push(() => {
    for (const { gauge } of ofUpstreams) gauge.reset()
    for (const { traffic, read } of pools) {
      for (const use of read()) for (const { gauge, of } of ofUpstreams) gauge.set({ upstream: use.upstream, traffic }, of(use))
    }
    for (const gauge of [connections, queue]) gauge.reset()
    for (const { store, read } of stores) {
      for (const use of read()) {
        const { purpose } = use
        for (const state of CONNECTION_STATES) connections.set({ store, purpose, state }, use[state])
        queue.set({ store, purpose }, use.waiting)
      }
    }
  })
  return {
    pools: (traffic, read) => { pools.push({ traffic, read }) },
    storeConnections: (store, read) => { stores.push({ store, read }) }
  }
}

function upstreamGauges (registry: Registry) {
  const { labelledGauge } = declare(registry)
  const labels = ['upstream', 'traffic'] as Array<'upstream' | 'traffic'>
  return [
    {
      gauge: labelledGauge('onceway_upstream_slots_taken', 'Requests and tunnels that hold a slot of an upstream.', labels),
      of: ({ taken }: PoolUse) => taken
    },
    {
      gauge: labelledGauge('onceway_upstream_slots_waiting', 'Requests that wait for a slot of an upstream.', labels),
      of: ({ waiting }: PoolUse) => waiting
    },
    {
      gauge: labelledGauge('onceway_upstream_slots_max', 'Slots of an upstream, by the configuration. Workers each have as many.', labels),
      of: ({ max }: PoolUse) => max
    },
    {
      gauge: labelledGauge(
        'onceway_upstream_connections',
        'Open connections to an upstream, including idle ones and without tunnels.',
        labels
      ),
      of: ({ connections }: PoolUse) => connections
    }
  ]
}
