/** A gateway of a soak: a process of the command line with its log in a file, ended by SIGTERM as an orchestrator does. */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { eventually } from '../harness/eventually.ts'
import { atExit } from '../harness/exit.ts'
import { MAIN } from '../harness/process-gateway.ts'

const BREAKS = new URL('../broken/register.ts', import.meta.url).href
/** On a busy machine; it takes half a second on an idle one. */
const STARTS_WITHIN_MS = 60_000
const LINES_SHOWN = 20

export interface GatewayProcess {
  readonly name: string
  readonly url: string
  readonly adminUrl: string
  readonly pid: number
  /** The end of its log, if it is not running any more; else null. */
  readonly trouble: () => string | null
  /** SIGTERM, and the exit code; what it takes is the drain's. */
  readonly stop: () => Promise<number | NodeJS.Signals>
}

export interface GatewayProcessOptions {
  readonly name: string
  readonly directory: string
  readonly config: string
  /** A break of test/broken; null: the gateway as it is. */
  readonly broken: string | null
  /** What Node is told, and the program. Default: the sources. */
  readonly program?: readonly string[]
}

export async function startGatewayProcess (options: GatewayProcessOptions): Promise<GatewayProcess> {
  const { name, directory, config, broken, program = [MAIN] } = options
  const [file, logFile] = [join(directory, `${name}.yaml`), join(directory, `${name}.log`)]
  writeFileSync(file, config)
  const log = openSync(logFile, 'a')
  const child = spawn(
    process.execPath,
    [...broken === null ? [] : ['--import', BREAKS], ...program, 'serve', '--config', file],
    { cwd: directory, stdio: ['ignore', log, log], env: environment(broken) }
  )
  closeSync(log)
  const forget = atExit(() => { child.kill('SIGKILL') })
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.once('exit', (code, signal) => { forget(); resolve(code ?? signal ?? 0) })
  })
  const said = (): string => readFileSync(logFile, 'utf8')
  const listens = (): RegExpExecArray | null => /listens on (http:\S+) +\(admin: (http:[^)]+)\)/.exec(said())
  await eventually(() => listens() !== null || hasEnded(child), '', STARTS_WITHIN_MS).catch(() => {})
  const [, url, adminUrl] = listens() ?? []
  if (url === undefined || adminUrl === undefined) {
    // Nobody would end it: it is not the caller's yet.
    child.kill('SIGKILL')
    throw new Error(`${name} does not listen:\n${said()}`)
  }
  return {
    name,
    url,
    adminUrl,
    pid: child.pid as number,
    trouble: () => hasEnded(child) ? said().split('\n').slice(-LINES_SHOWN).join('\n') : null,
    stop: async () => {
      child.kill('SIGTERM')
      return exited
    }
  }
}

function hasEnded (child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

/** The run's own environment must not configure the gateway. */
function environment (broken: string | null): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) =>
    !/^(ONCEWAY_|DATABASE_URL|REDIS_URL|PG|NODE_TEST_CONTEXT|NODE_OPTIONS)/.test(name))
  return { ...Object.fromEntries(own), ...broken === null ? {} : { ONCEWAY_BREAK: broken } }
}
