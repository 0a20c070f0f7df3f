/** Waiting for a server that says in its log when it is ready. */
import { readFileSync } from 'node:fs'
import { eventually } from './eventually.ts'
import type { Launched } from './process.ts'

interface Saying {
  readonly name: string
  readonly log: string
  readonly running: Launched
  readonly what: RegExp
  readonly longestMs: number
}

/** Resolves with the log. Rejects if the server ends, or does not log it in time. */
export async function said ({ name, log, running, what, longestMs }: Saying): Promise<string> {
  const text = (): string => readFileSync(log, 'utf8')
  await eventually(
    () => what.test(text()) || !running.running(),
    () => `${name} was not ready in ${longestMs / 1000} s:\n${running.lastLog()}`,
    longestMs
  )
  if (!running.running()) throw new Error(`${name} ended while starting:\n${running.lastLog()}`)
  return text()
}
