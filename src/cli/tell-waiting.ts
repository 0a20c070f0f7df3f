/** Says to whoever pressed Ctrl-C what the gateway waits for, and at the end that it has stopped. */
import type { Terminal } from './command.ts'

export interface Stopping {
  readonly executions: number
  readonly deliveries: number
  readonly delayMs: number
  readonly timeoutMs: number
}

const AGAIN_MS = 5_000
const ONCE_MORE = 'Ctrl-C again ends at once; what is under way becomes indeterminate.'

/** `signal`: only Ctrl-C comes from somebody who watches. `over`: everything is closed. */
export function tellWaiting (
  signal: NodeJS.Signals | null,
  stopping: () => Stopping | Promise<Stopping>,
  { out }: Pick<Terminal, 'out'>
): { readonly over: () => void } {
  const beganAt = performance.now()
  let isOver = false
  let timer: NodeJS.Timeout | undefined
  const tell = async (): Promise<void> => {
    const { delayMs, timeoutMs, ...underWay } = await stopping()
    if (isOver) return
    const restMs = Math.max(0, delayMs + timeoutMs - (performance.now() - beganAt))
    const delaying = delayMs - (performance.now() - beganAt)
    out(`onceway: ${timer === undefined ? 'stopping' : 'still stopping'}: ${[delaying > 0 ? `it serves for ${seconds(delaying)} more (drain.delay)` : null, executionsText(underWay, restMs)].filter((each) => each !== null).join(', ')}. ${ONCE_MORE}`)
    timer = setTimeout(() => { void tell() }, AGAIN_MS)
  }
  if (signal === 'SIGINT') void tell()
  return {
    over: () => {
      isOver = true
      clearTimeout(timer)
      // Behind the last log line, which the log writes at the end of the process.
      process.once('exit', () => { out('onceway has stopped.') })
    }
  }
}

function executionsText ({ executions, deliveries }: Pick<Stopping, 'executions' | 'deliveries'>, restMs: number): string {
  const counted = [[executions, 'execution'], [deliveries, 'delivery']] as const
  const what = counted.flatMap(([count, name]) =>
    count === 0 ? [] : [`${count} ${count === 1 ? name : name === 'delivery' ? 'deliveries' : `${name}s`}`])
  return what.length === 0 ? 'nothing is under way' : `${what.join(' and ')} under way, up to ${seconds(restMs)} more`
}

function seconds (ms: number): string {
  return `${Math.ceil(ms / 1_000)} s`
}
