/**
 * Synchronous cleanup at the end of the test process, in the reverse order of registration. It also runs on SIGINT, SIGTERM and
 * SIGHUP. SIGKILL cannot be caught, so process.ts keeps a watchdog.
 */
type Call = () => void

const calls: Call[] = []
let armed = false

/** Calls `call` when the process ends. Returns a function that cancels it. */
export function atExit (call: Call): () => void {
  arm()
  calls.push(call)
  return () => {
    const at = calls.indexOf(call)
    if (at >= 0) calls.splice(at, 1)
  }
}

function arm () {
  if (armed) return
  armed = true
  process.once('exit', runAll)
  for (const [signal, code] of [['SIGINT', 130], ['SIGTERM', 143], ['SIGHUP', 129]] as const) {
    process.once(signal, () => process.exit(code))
  }
}

function runAll () {
  for (const call of calls.toReversed()) {
    try { call() } catch (error) { console.error('clean-up of a test failed:', error) }
  }
}
