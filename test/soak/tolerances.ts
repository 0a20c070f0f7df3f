/** How long a soak warms up, how often it looks, and by how much each series may rise before it counts as rising. */
import type { Sample } from './sampler.ts'
import { floors, VALUES_MIN } from './verdict.ts'
import type { Series, Tolerance } from './verdict.ts'

export interface Scale {
  readonly sampleEveryMs: number
  /** Until then caches fill, pools grow and code is compiled; nothing is judged. */
  readonly warmUpMs: number
  /** Of records: once it is over, as many are swept as are made. */
  readonly retentionMs: number
  /** Samples of which the lowest heap is taken: at least one collection among them. */
  readonly heapFloor: number
  /** Of memory. */
  readonly memoryShare: number
  /** Connections and executions that a moment's slowness of the machine adds. */
  readonly jump: number
  /** Of the requests, so many may be told that the machine is too busy. */
  readonly refusedShare: number
}

const MIB = 1024 * 1024

/** Half an hour or so. RSS moves by some percent with every major collection; a leak of a kilobyte a request is a gigabyte. */
export const FULL: Scale = {
  sampleEveryMs: 5_000,
  warmUpMs: 300_000,
  retentionMs: 120_000,
  heapFloor: 12,
  memoryShare: 0.1,
  jump: 16,
  refusedShare: 0
}

/** A few minutes and less, down to half a minute: heaps are still being sized, so memory is judged roughly and the books as ever. */
export function scaleOf (minutes: number): Scale {
  const totalMs = minutes * 60_000
  if (totalMs >= 4 * FULL.warmUpMs) return FULL
  return {
    sampleEveryMs: Math.max(250, Math.min(FULL.sampleEveryMs, totalMs / 80)),
    warmUpMs: totalMs / 3,
    retentionMs: Math.round(Math.max(5_000, totalMs / 6)),
    heapFloor: 4,
    memoryShare: 0.5,
    jump: 48,
    refusedShare: 0.1
  }
}

/** By the last word of a series' name; the others are only reported. */
function toleranceOf (name: string, { memoryShare, jump }: Scale): Tolerance | null {
  switch (name.split(' ').at(-1)) {
    case 'rss': return { share: memoryShare, absolute: 16 * MIB }
    case 'heap': return { share: memoryShare, absolute: 8 * MIB }
    // Connections of clients and to the upstream come and go with the load.
    case 'files':
    case 'sockets':
    case 'resources': return { share: 0.1, absolute: jump }
    // Some milliseconds' worth of the load, at any moment.
    case 'requests':
    case 'executions':
    case 'waiters': return { share: 0.25, absolute: jump / 3 }
    case 'unsettled': return { share: 0, absolute: 0 }
    // A pool grows to what it may have and stays there: one more of each gateway at most, late.
    case 'claims':
    case 'settles':
    case 'renewals':
    case 'background':
    case 'clients': return { share: 0, absolute: 2 }
    case 'records': return { share: 0.15, absolute: 200 }
    default: return null
  }
}

export function tolerated (samples: readonly Sample[], scale: Scale): Series[] {
  const names = Object.keys(samples[0]?.values ?? {})
  return names.flatMap((name) => {
    const tolerance = toleranceOf(name, scale)
    if (tolerance === null) return []
    const values = samples.map((sample) => sample.values[name] ?? 0)
    return [{ name, tolerance, values: name.endsWith(' heap') ? floors(values, heapFloorOf(values.length, scale)) : values }]
  })
}

/** Fewer where a slow machine has taken few samples: there must be enough floors to judge. */
function heapFloorOf (samples: number, { heapFloor }: Scale): number {
  return Math.max(1, Math.min(heapFloor, Math.floor(samples / VALUES_MIN)))
}
