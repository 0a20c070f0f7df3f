/** The command line of a process of its own. */
import { run } from './run.ts'

/** After a command nothing should hold the process. What does is a leak, and must not hold up a roll-out. */
const LEAK_GRACE_MS = 2_000
/** Nobody reads any more: `onceway records list | head -1`, a terminal that was closed. */
const UNREAD: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO', 'ECONNRESET'])

const unread = new Set<NodeJS.WriteStream>()

export async function main (): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', (error) => { writeFailed(stream, error) })
  process.exitCode = await run(process.argv.slice(2), {
    env: process.env,
    out: (line) => { write(process.stdout, line) },
    err: (line) => { write(process.stderr, line) }
  })
  setTimeout(() => { process.exit() }, LEAK_GRACE_MS).unref()
}

function write (stream: NodeJS.WriteStream, line: string): void {
  if (!unread.has(stream)) stream.write(`${line}\n`)
}

/** The command goes on in silence, to its own exit code: it may be in the middle of a change. */
function writeFailed (stream: NodeJS.WriteStream, { code }: NodeJS.ErrnoException): void {
  if (unread.has(stream)) return
  unread.add(stream)
  if (UNREAD.has(code)) return
  process.stderr.write(`onceway: the output could not be written (${code ?? 'unknown error'}).\n`)
  process.on('exit', (exitCode) => { process.exitCode = exitCode === 0 ? 1 : exitCode })
}
