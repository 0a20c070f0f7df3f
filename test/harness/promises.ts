/** Counts the promises that the sources make. Those of the test runner are none of theirs. */
import { createHook } from 'node:async_hooks'
import { fileURLToPath } from 'node:url'

const SRC = new URL('../../src/', import.meta.url)
const PATHS = [SRC.href, fileURLToPath(SRC)]
/** Deep enough to reach the sources through a driver. */
const FRAMES = 50

/** Calls `work`, which calls back when it is over. Resolves with where each promise was made. */
export async function promisesOf (work: (over: () => void) => void): Promise<string[]> {
  const stacks: string[] = []
  const limit = Error.stackTraceLimit
  const hook = createHook({
    init: (_id, type) => {
      const stack = type === 'PROMISE' ? new Error('a promise').stack ?? '' : ''
      if (PATHS.some((path) => stack.includes(path))) stacks.push(stack)
    }
  })
  Error.stackTraceLimit = FRAMES
  try {
    await new Promise<void>((resolve) => {
      hook.enable()
      work(resolve)
    })
  } finally {
    hook.disable()
    Error.stackTraceLimit = limit
  }
  return stacks
}
