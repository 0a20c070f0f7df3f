/**
 * The gateway without an upstream: a toy payments API and a temporary store. An answer of the toy must never be replayed as a real
 * upstream's. So the toy uses neither the data directory nor the database of the environment.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../config/read/interpolate.ts'
import { startDemoUpstream } from '../demo/upstream.ts'
import { StartError } from '../ports/errors.ts'
import { reachable } from '../http/listen.ts'
import { isHeld } from '../store/sqlite/directory.ts'

const DIRECTORY_PREFIX = 'onceway-toy-'
/** A directory without a lock is removed only after this time, because another toy may just have created it. */
const STALE_MS = 60 * 60 * 1_000

export interface Toy {
  readonly url: string
  /** The environment without variables that name a store. */
  readonly env: Environment
  readonly dataDir: string
  /** Lines to print at the start. */
  readonly notes: readonly string[]
  readonly stop: () => Promise<void>
}

/** `dataDir`: of --data-dir. It is kept at the end. */
export async function startToy (env: Environment, dataDir: string | undefined): Promise<Toy> {
  const unused = Object.keys(env).filter((name) => STORE_VARIABLE.test(name) && env[name] !== '').toSorted()
  removeStale()
  const directory = dataDir ?? makeDirectory()
  const remove = (): void => { if (dataDir === undefined) rmSync(directory, { recursive: true, force: true }) }
  // A second signal ends the process without `stop`.
  process.once('exit', remove)
  const upstream = await startDemoUpstream()
  return {
    url: upstream.url,
    env: Object.fromEntries(Object.entries(env).filter(([name]) => !STORE_VARIABLE.test(name))),
    dataDir: directory,
    notes: [
      ...dataDir === undefined
        ? ['Its records are in a temporary directory, which is removed at the end.']
        : [`Its records stay in ${dataDir}: do not serve a real upstream from there.`],
      ...unused.length === 0 ? [] : [`${unused.join(', ')} ${unused.length === 1 ? 'is' : 'are'} not used: the toy never uses real stores. Name a server with --upstream, or a file with --config.`]
    ],
    stop: async () => {
      await upstream.stop()
      remove()
    }
  }
}

/** @throws StartError */
function makeDirectory (): string {
  try {
    return mkdtempSync(join(tmpdir(), DIRECTORY_PREFIX))
  } catch (error) {
    throw new StartError(`The toy cannot create a directory in ${tmpdir()} (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}). Set TMPDIR, or name a directory with --data-dir.`, 1, error)
  }
}

const STORE_VARIABLE = /^((ONCEWAY_)?(DATABASE|REDIS)_URL|ONCEWAY_STORES_.*|ONCEWAY_DATA_DIR)$/

/** Removes directories of killed toys: only this user's, and only those that no process holds. Never fails. */
function removeStale (): void {
  const uid = process.getuid?.()
  if (uid === undefined) return
  for (const directory of toyDirectoriesIn(tmpdir())) {
    try {
      const found = lstatSync(directory)
      if (found.isDirectory() && found.uid === uid && Date.now() - found.mtimeMs > STALE_MS && !isHeld(directory)) {
        rmSync(directory, { recursive: true, force: true })
      }
    } catch {}
  }
}

/** Empty if the directory cannot be listed: a user may have the right to write there but not to read. */
function toyDirectoriesIn (directory: string): string[] {
  try {
    return readdirSync(directory).filter((name) => name.startsWith(DIRECTORY_PREFIX)).map((name) => join(directory, name))
  } catch {
    return []
  }
}

export function exampleLines (url: string): string[] {
  const at = reachable(url)
  const pay = `curl -i ${at}/v1/payments -H 'Content-Type: application/json' -H 'Idempotency-Key: order-1'`
  return [
    '',
    'It guards a toy payments API that is not idempotent by itself. Try:',
    '',
    `  ${pay} -d '{"amount": 100, "currency": "EUR"}'    # executed: a new payment`,
    `  ${pay} -d '{"amount": 100, "currency": "EUR"}'    # replayed: the same payment`,
    `  ${pay} -d '{"amount": 999, "currency": "EUR"}'    # 422: the same key, another request`,
    `  curl ${at}/v1/payments                            # one payment was made`,
    ''
  ]
}
