/**
 * `node --import preload.ts` with ALLOCATED=FILE: at SIGWINCH it begins to watch the collector, at the next it writes what the
 * main thread has allocated meanwhile. Until then it does nothing: Node ignores this signal by itself.
 */
import { renameSync, writeFileSync } from 'node:fs'
import { GCProfiler, getHeapSpaceStatistics, getHeapStatistics } from 'node:v8'
import type { GCProfilerResult } from 'node:v8'
import { isMainThread } from 'node:worker_threads'
import { allocated, BEGUN, heapUse } from './allocated.ts'
import type { HeapUse } from './allocated.ts'

const { ALLOCATED = '' } = process.env

interface Watch { readonly profiler: GCProfiler, readonly start: HeapUse }
let watch: Watch | null = null

if (isMainThread && ALLOCATED !== '') process.on('SIGWINCH', () => { watch = watch === null ? begin() : end(watch) })

function begin (): Watch {
  const profiler = new GCProfiler()
  profiler.start()
  write(BEGUN)
  return { profiler, start: useNow() }
}

function end ({ profiler, start }: Watch): null {
  const now = useNow()
  const collections = profiler.stop().statistics.map(({ beforeGC, afterGC }) => ({ before: sideOf(beforeGC), after: sideOf(afterGC) }))
  write(JSON.stringify(allocated(start, collections, now)))
  return null
}

function useNow (): HeapUse {
  const spaces = getHeapSpaceStatistics().map(({ space_name: name, space_used_size: used }) => ({ name, used }))
  return heapUse(spaces, getHeapStatistics().external_memory)
}

function sideOf ({ heapStatistics, heapSpaceStatistics }: GCProfilerResult['statistics'][number]['beforeGC']): HeapUse {
  return heapUse(heapSpaceStatistics.map(({ spaceName: name, spaceUsedSize: used }) => ({ name, used })), heapStatistics.externalMemory)
}

/** Whoever waits for the file never reads half of it. */
function write (text: string): void {
  writeFileSync(`${ALLOCATED}.new`, text)
  renameSync(`${ALLOCATED}.new`, ALLOCATED)
}
