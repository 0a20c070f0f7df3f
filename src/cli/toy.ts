/**
 * The try-out: a toy payments API and a store that ends with it. What the toy answered must never be replayed as the
 * answer of a real upstream, so the toy uses neither the data directory nor the database of the environment.
 */
import { lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Environment } from '../config/read/interpolate.ts'
import { startDemoUpstream } from '../demo/upstream.ts'
import { StartError } from '../ports/errors.ts'
import { reachable } from '../http/listen.ts'
import { isHeld } from '../store/sqlite/directory.ts'

const PREFIX = 'onceway-toy-'
/** A directory that nobody holds may be one that a toy has just made. */
const LEFT_BEHIND_MS = 60 * 60 * 1_000

export interface Toy {
  readonly url: string
  /** The environment without what names a store. */
  readonly env: Environment
  readonly dataDir: string
  /** What to say of it. */
  readonly remarks: readonly string[]
  readonly stop: () => Promise<void>
}

/** `dataDir`: given by hand, and kept. */
export async function startToy (env: Environment, dataDir: string | undefined): Promise<Toy> {
  const unused = Object.keys(env).filter((name) => STORES.test(name) && env[name] !== '').toSorted()
  removeLeftBehind()
  const directory = dataDir ?? makeDirectory()
  const remove = (): void => { if (dataDir === undefined) rmSync(directory, { recursive: true, force: true }) }
  // A second signal ends the process where it stands.
  process.once('exit', remove)
  const upstream = await startDemoUpstream()
  return {
    url: upstream.url,
    env: Object.fromEntries(Object.entries(env).filter(([name]) => !STORES.test(name))),
    dataDir: directory,
    remarks: [
      ...dataDir === undefined
        ? ['Its records are in a directory of their own, and go with it.']
        : [`Its records stay in ${dataDir}: do not serve a real upstream from there.`],
      ...unused.length === 0 ? [] : [`${unused.join(', ')} ${unused.length === 1 ? 'is' : 'are'} not used: the toy stays out of real stores. Name a server with --upstream, or a file with --config.`]
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
    return mkdtempSync(join(tmpdir(), PREFIX))
  } catch (error) {
    throw new StartError(`The toy can have no directory in ${tmpdir()} (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}): set TMPDIR, or give it one with --data-dir.`, 1, error)
  }
}

const STORES = /^((ONCEWAY_)?(DATABASE|REDIS)_URL|ONCEWAY_STORES_.*|ONCEWAY_DATA_DIR)$/

/** Of toys that were killed. Only this user's, only directories that no process holds; never fails. */
function removeLeftBehind (): void {
  const uid = process.getuid?.()
  if (uid === undefined) return
  for (const directory of toysIn(tmpdir())) {
    try {
      const found = lstatSync(directory)
      if (found.isDirectory() && found.uid === uid && Date.now() - found.mtimeMs > LEFT_BEHIND_MS && !isHeld(directory)) {
        rmSync(directory, { recursive: true, force: true })
      }
    } catch {}
  }
}

/** One may have the right to write there and not to look, and with a directory of one's own need neither. */
function toysIn (directory: string): string[] {
  try {
    return readdirSync(directory).filter((name) => name.startsWith(PREFIX)).map((name) => join(directory, name))
  } catch {
    return []
  }
}

export function tryLines (url: string): string[] {
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
