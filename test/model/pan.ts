/**
 * One search of the model: spin writes pan's source, a compiler builds it, and pan searches. It reports pan's result, and whether the
 * search was complete. An incomplete search that finds nothing proves nothing.
 */
import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findTool } from '../harness/binaries.ts'
import { makeDirectory } from '../harness/directory.ts'
import { STUCK } from './searches.ts'
import type { Search } from './searches.ts'

export const MODEL = fileURLToPath(new URL('onceway.pml', import.meta.url))

export interface Limits {
  /** Of the search alone, without compiling. */
  readonly seconds: number
  readonly megabytes: number
}

export interface Verdict {
  /** The search was complete and found nothing wrong. */
  readonly holds: boolean
  /** The property that is violated. null: none, or pan does not name it. */
  readonly violated: string | null
  readonly states: number
  readonly depth: number
  /** Of the search alone: compiling takes the same time for all. */
  readonly seconds: number
  /** Everything that pan said. */
  readonly output: string
}

/** The longest path of any search is a hundredth of it. If one is longer, pan says so, and the search does not hold. */
const DEPTH_MAX = 50_000
/** Slots in the hash table, as a power of two: the memory that is zeroed before the search. More states only take longer. */
const PLACES = { small: 18, counterexample: 18, wide: 25 } as const
const COMPILE_MS = 120_000
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024
/** Room for every process of the model under weak fairness. */
const FAIRNESS = '-DNFAIR=5'

/** The purpose of a search: all states of a small or a wide one, or the shortest schedule to an error. */
export type Aim = 'small' | 'wide' | 'counterexample'

export async function search (one: Search, aim: Aim, limits: Limits): Promise<Verdict> {
  return inDirectory(one, async (cwd) => searchIn(cwd, one, aim, limits))
}

/** The shortest schedule to the error, step by step. */
export async function trail (one: Search, limits: Limits): Promise<string> {
  return inDirectory(one, async (cwd) => {
    await searchIn(cwd, one, 'counterexample', limits)
    const { output } = await run(cwd, toolPath('spin'), ['-t', '-p', '-k', 'onceway.pml.trail', ...definitionsOf(one), MODEL], COMPILE_MS)
    return output
      .split('\n')
      .filter((line) => /proc +\d+ /.test(line) && !/goto|\[else\]|\[\(1\)\]|= 0\]$/.test(line))
      .map((line) => line.replace(MODEL, 'onceway.pml'))
      .join('\n')
  })
}

async function searchIn (cwd: string, one: Search, aim: Aim, limits: Limits): Promise<Verdict> {
  const live = 'LIVE' in one.define
  await must(cwd, 'spin', ['-a', ...definitionsOf(one), MODEL])
  await must(cwd, compilerFor(aim), [...compilerOptions(live, aim), `-DMEMLIM=${limits.megabytes}`, '-o', 'pan', 'pan.c'])
  const startedAt = performance.now()
  const { output } = await run(
    cwd,
    join(cwd, 'pan'),
    [`-m${DEPTH_MAX}`, `-w${PLACES[aim]}`, '-n', ...live ? ['-a', '-f'] : []],
    limits.seconds * 1_000
  )
  return verdictOf(output, (performance.now() - startedAt) / 1_000)
}

function definitionsOf ({ define }: Search): string[] {
  return Object.entries(define).map(([key, value]) => `-D${key}=${value}`)
}

async function inDirectory<Result> ({ name }: Search, work: (cwd: string) => Promise<Result>): Promise<Result> {
  const directory = makeDirectory('model', tmpdir())
  try {
    return await work(directory.path)
  } catch (error) {
    throw new Error(`${name}: ${error instanceof Error ? error.message : String(error)}`, { cause: error })
  } finally {
    directory.remove()
  }
}

/** A small search takes less time than gcc. A build by tcc goes through the same states in the same order. */
function compilerFor (aim: Aim): 'gcc' | 'tcc' {
  return aim !== 'wide' && findTool('tcc').kind === 'binaries' ? 'tcc' : 'gcc'
}

/** A small search ends sooner than an optimised build would, and its states fit into memory uncompressed. */
function compilerOptions (live: boolean, aim: Aim): string[] {
  const shortest = aim === 'counterexample' && !live
  return [
    ...aim === 'wide' ? ['-O2', '-DCOLLAPSE'] : ['-O0'],
    '-w',
    '-DVECTORSZ=2048',
    ...live ? [FAIRNESS] : ['-DSAFETY'],
    ...shortest ? ['-DBFS'] : []
  ]
}

export function verdictOf (output: string, seconds: number): Verdict {
  const errors = /^State-vector \d+ byte, depth reached (\d+), errors: (\d+)$/m.exec(output)
  const cut = /max search depth too small|out of memory|reached -DMEMLIM|Search not completed/i.test(output)
  return {
    holds: errors?.[2] === '0' && !cut && violationIn(output) === null,
    violated: violationIn(output),
    states: Math.round(Number(/^\s*([\d.e+]+) states, stored/m.exec(output)?.[1] ?? Number.NaN)),
    depth: Number(errors?.[1] ?? Number.NaN),
    seconds,
    output
  }
}

/** The first name in an assertion is the property that it checks. */
function violationIn (output: string): string | null {
  const said = /^pan:\d+: (.*)$/m.exec(output)?.[1]
  if (said === undefined) return null
  if (said.startsWith('acceptance cycle')) return STUCK
  return /^assertion violated [ (!]*(\w+)/.exec(said)?.[1] ?? said
}

async function must (cwd: string, tool: 'spin' | 'gcc' | 'tcc', args: readonly string[]): Promise<void> {
  const { output, code } = await run(cwd, toolPath(tool), args, COMPILE_MS)
  // spin exits with 0 on some syntax errors, and prints them.
  if (code !== 0 || /^spin: .*Error/m.test(output)) throw new Error(`${tool}: ${output}`)
}

function toolPath (tool: 'spin' | 'gcc' | 'tcc'): string {
  const source = findTool(tool)
  if (source.kind !== 'binaries') throw new Error(source.kind === 'none' ? source.why : `${tool} does not run in a container here`)
  return join(source.directory, tool)
}

async function run (
  cwd: string,
  file: string,
  args: readonly string[],
  timeoutMs: number
): Promise<{ readonly output: string, readonly code: number | null }> {
  const { promise, resolve } = Promise.withResolvers<{ readonly output: string, readonly code: number | null }>()
  // spin calls gcc to preprocess: both may be outside the path.
  const path = [process.env.PATH, ...(['spin', 'gcc'] as const).map((tool) => join(toolPath(tool), '..'))].filter(Boolean).join(delimiter)
  const options = {
    cwd,
    env: { ...process.env, PATH: path },
    timeout: timeoutMs,
    maxBuffer: OUTPUT_BYTES_MAX,
    killSignal: 'SIGKILL'
  } as const
  const child = execFile(file, args, options, (_error, stdout, stderr) => {
    const ended = child.signalCode === null ? '' : `\nended by ${child.signalCode} after ${timeoutMs} ms: Search not completed\n`
    resolve({ output: `${stdout}${stderr}${ended}`, code: child.exitCode })
  })
  return promise
}
