/** A full collection that gives memory back to the system. Node has no function for it without a flag of V8. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

type Collect = (options: { readonly type: 'major', readonly execution: 'sync', readonly flavor: 'last-resort' }) => void

/**
 * Stops the process for a tenth of a second. Measured (Node 24.21, three waves of 10,000 waiters on the embedded store): 93 to 174 ms, and
 * RSS of 308 instead of 523 MiB after the last wave, 251 before the first.
 */
export function collectMemory (): void {
  // A context that is made while the flag is set has `gc`. No other has.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('globalThis.gc') as Collect | undefined
  setFlagsFromString('--no-expose-gc')
  collect?.({ type: 'major', execution: 'sync', flavor: 'last-resort' })
}
