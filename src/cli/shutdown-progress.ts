/** After Ctrl-C, prints what the gateway still waits for. At the end, prints that it has stopped. */
import type { Terminal } from './command.ts'

export interface ShutdownState {
  readonly executions: number
  readonly deliveries: number
  readonly delayMs: number
  readonly timeoutMs: number
}

const REPORT_EVERY_MS = 5_000
const FORCE_HINT = 'Press Ctrl-C again to end at once. Requests in flight become indeterminate.'

/** `signal`: only Ctrl-C (SIGINT) comes from a person at the terminal. Call `done` when everything is closed. */
export function reportShutdown (
  signal: NodeJS.Signals | null,
  stopping: () => ShutdownState | Promise<ShutdownState>,
  { out }: Pick<Terminal, 'out'>
): { readonly done: () => void } {
  const beganAt = performance.now()
  let isDone = false
  let timer: NodeJS.Timeout | undefined
  const print = async (): Promise<void> => {
    const { delayMs, timeoutMs, ...inFlight } = await stopping()
    if (isDone) return
    const leftMs = Math.max(0, delayMs + timeoutMs - (performance.now() - beganAt))
    const delayLeftMs = delayMs - (performance.now() - beganAt)
    out(`onceway: ${timer === undefined ? 'stopping' : 'still stopping'}: ${[delayLeftMs > 0 ? `it serves for ${seconds(delayLeftMs)} more (drain.delay)` : null, inFlightText(inFlight, leftMs)].filter((each) => each !== null).join(', ')}. ${FORCE_HINT}`)
    timer = setTimeout(() => { void print() }, REPORT_EVERY_MS)
  }
  if (signal === 'SIGINT') void print()
  return {
    done: () => {
      isDone = true
      clearTimeout(timer)
      // At exit, so that it follows the last log line, which the log writes at the end of the process.
      process.once('exit', () => { out('onceway has stopped.') })
    }
  }
}

function inFlightText ({ executions, deliveries }: Pick<ShutdownState, 'executions' | 'deliveries'>, leftMs: number): string {
  const counted = [[executions, 'execution'], [deliveries, 'delivery']] as const
  const what = counted.flatMap(([count, name]) =>
    count === 0 ? [] : [`${count} ${count === 1 ? name : name === 'delivery' ? 'deliveries' : `${name}s`}`])
  return what.length === 0 ? 'nothing is in flight' : `${what.join(' and ')} in flight, up to ${seconds(leftMs)} more`
}

function seconds (ms: number): string {
  return `${Math.ceil(ms / 1_000)} s`
}
