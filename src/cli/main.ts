/** Runs the command line in this process: streams, exit code, and an exit that leaks cannot delay. */
import { run } from './run.ts'

/** After a command nothing should keep the process alive. A leak must not delay a roll-out. */
const LEAK_GRACE_MS = 2_000
/** Errors of a stream whose reader is gone: `onceway records list | head -1`, a closed terminal. */
const READER_GONE: ReadonlySet<string | undefined> = new Set(['EPIPE', 'EIO', 'ECONNRESET'])

const closedStreams = new Set<NodeJS.WriteStream>()

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
  if (!closedStreams.has(stream)) stream.write(`${line}\n`)
}

/** The command continues without output, because it may be in the middle of a change. It ends with its own exit code. */
function writeFailed (stream: NodeJS.WriteStream, { code }: NodeJS.ErrnoException): void {
  if (closedStreams.has(stream)) return
  closedStreams.add(stream)
  if (READER_GONE.has(code)) return
  process.stderr.write(`onceway: the output could not be written (${code ?? 'unknown error'}).\n`)
  process.on('exit', (exitCode) => { process.exitCode = exitCode === 0 ? 1 : exitCode })
}
