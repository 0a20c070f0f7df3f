/** The command line of a process of its own. */
import { run } from './run.ts'

/** After a command nothing should hold the process. What does is a leak, and must not hold up a roll-out. */
const LEAK_GRACE_MS = 2_000

export async function main (): Promise<void> {
  process.exitCode = await run(process.argv.slice(2), {
    env: process.env,
    out: (line) => { process.stdout.write(`${line}\n`) },
    err: (line) => { process.stderr.write(`${line}\n`) }
  })
  setTimeout(() => { process.exit() }, LEAK_GRACE_MS).unref()
}
