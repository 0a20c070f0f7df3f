/**
 * Loaded into a gateway before everything else (`NODE_OPTIONS=--import …`). On SIGUSR2 it fills nine tenths of the heap, and keeps it
 * so: the process serves, and is near its end.
 */
import { getHeapStatistics } from 'node:v8'

const SHARE = 0.91
/** Numbers of eight bytes each. */
const STEP = 64 * 1024
/** A collection may have freed what was counted at first. */
const AGAIN_MS = 500

const kept: number[][] = []

function fill (): void {
  const { heap_size_limit: limit } = getHeapStatistics()
  while (process.memoryUsage().heapUsed < limit * SHARE) kept.push(new Array<number>(STEP).fill(0.5))
}

process.on('SIGUSR2', () => {
  fill()
  setInterval(fill, AGAIN_MS).unref()
})
