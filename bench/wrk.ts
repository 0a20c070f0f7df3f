/** The load generator: one run of wrk with load/load.lua, and the line it prints. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findTool } from '../test/harness/binaries.ts'
import { ACCEPTED, AFTER_KEY, BEFORE_KEY, BODY, GROUP_HEADER, GROUPS, PATH, STATUS, TOKEN } from './exchange.ts'

export interface Load {
  readonly url: string
  readonly connections: number
  /** Whole ones: wrk knows no others. */
  readonly seconds: number
  /** What its keys begin with. */
  readonly series: string
  /** null: every request has a key of its own; else the keys 1 to this one of the series, in turn. */
  readonly pool: number | null
  /** Every request is to be answered as a message that was accepted; what it came to is seen elsewhere. */
  readonly accepts?: boolean
}

export interface LoadResult {
  readonly answered: number
  readonly durationMs: number
  /** wrk fills in what a stalled connection would have seen, for all alike. */
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of wrk itself. */
  readonly cpuSeconds: number
  readonly wrong: { readonly statuses: number, readonly bytes: number, readonly unasked: number, readonly example: string }
  readonly broken: { readonly connect: number, readonly read: number, readonly write: number, readonly timeout: number }
}

const SCRIPT = fileURLToPath(new URL('load/load.lua', import.meta.url))
/** One thread drives 40,000 requests a second through the script on a core of its own: more than any contestant but nginx gives. */
const THREADS = 1
/** No answer of the benchmark takes a second; what takes longer than this is told as an error. */
const TIMEOUT = '10s'

export async function drive (load: Load): Promise<LoadResult> {
  const source = findTool('wrk')
  if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : 'wrk does not run in a container here')
  const child = spawn(join(source.directory, 'wrk'), [
    '-t', String(THREADS), '-c', String(load.connections), '-d', `${load.seconds}s`, '--timeout', TIMEOUT, '-s', SCRIPT,
    `${load.url}${PATH}`,
    '--', load.pool === null ? 'unique' : 'pool', load.series, String(load.pool ?? 0), TOKEN, BODY, BEFORE_KEY, AFTER_KEY,
    ...load.accepts === true ? [String(ACCEPTED), GROUP_HEADER, String(GROUPS)] : [String(STATUS)]
  ], { stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => { output += chunk.toString() })
  child.stderr.on('data', (chunk: Buffer) => { output += chunk.toString() })
  const [code] = await once(child, 'close') as [number | null]
  const line = output.split('\n').find((text) => text.startsWith('{'))
  if (code !== 0 || line === undefined) throw new Error(`wrk failed (${code}):\n${output}`)
  return JSON.parse(line) as LoadResult
}
