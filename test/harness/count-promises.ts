/**
 * `--import` of a gateway's process: counts promises. It begins on a SIGUSR2, and on the next one it ends, and says in one line on stderr
 * how many there were, and where most of them were made.
 */
import { createHook } from 'node:async_hooks'
import { writeSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'

/** Enough to see which line of the sources has made a promise through a driver. */
const FRAMES = 12
/** One of so many promises is looked at, because a stack costs more than a request. */
const LOOKED_AT = 16
const PLACES = 5

export const SAYS = 'promises: '

export interface Counted { readonly count: number, readonly places: ReadonlyArray<readonly [seen: number, place: string]> }

if (isMainThread && process.env.COUNT_PROMISES === '1') {
  const places = new Map<string, number>()
  let count = 0
  let isOn = false
  const hook = createHook({
    init: (_id, type) => {
      if (type !== 'PROMISE' || count++ % LOOKED_AT !== 0) return
      const place = placeOf()
      places.set(place, (places.get(place) ?? 0) + 1)
    }
  })
  process.on('SIGUSR2', () => {
    isOn = !isOn
    if (isOn) {
      hook.enable()
      return
    }
    hook.disable()
    const most = Array.from(places, ([place, seen]) => [seen, place] as const).toSorted(([a], [b]) => b - a).slice(0, PLACES)
    writeSync(2, `${SAYS}${JSON.stringify({ count, places: most } satisfies Counted)}\n`)
    places.clear()
    count = 0
  })
}

function placeOf (): string {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = FRAMES
  const stack = new Error('a promise').stack ?? ''
  Error.stackTraceLimit = limit
  return stack.split('\n').slice(3).map((line) => line.trim()).join(' ')
}
