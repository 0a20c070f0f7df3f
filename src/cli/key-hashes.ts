/**
 * What an operator's `--key` stands for in the store: its hash by the scheme of ids that claims there, and by the one before while
 * anything of it may be left (core/record/schemes.ts). Whoever has not got their secrets cannot tell.
 */
import { keyHash } from '../core/record/record-id.ts'
import { keysOf } from '../core/record/schemes.ts'
import type { Scheme } from '../core/record/schemes.ts'
import { StartError } from '../ports/errors.ts'
import type { RecordStore } from '../ports/records.ts'
import type { Terminal } from './command.ts'

export interface KeyedStore {
  readonly records: Pick<RecordStore, 'schemes'>
  /** What its ids may be keyed with, as far as this configuration knows. @throws StartError */
  readonly secrets: () => readonly Buffer[]
}

/** Says on the terminal's side channel what is not looked for. @throws StartError where nothing can be */
export async function keyHashesOf (key: string, { records, secrets }: KeyedStore, { err }: Terminal): Promise<Buffer[]> {
  const [{ current, earlier }, known] = [await records.schemes(), secrets()]
  const hashes: Buffer[] = []
  const missing: string[] = []
  for (const scheme of [current, earlier]) {
    if (scheme === null || (scheme === earlier && earlier.isOver)) continue
    const found = keysOf(scheme, known)
    if (found.kind === 'keys') {
      hashes.push(keyHash(key, found.keys.secret))
    } else {
      missing.push(scheme === earlier && earlier.isLost ? `the secret of the scheme ${scheme.name} is lost` : reasonOf(scheme, found.kind))
    }
  }
  if (hashes.length === 0 && missing.length > 0) throw new StartError(`Nothing is found here by its key: ${missing.join(', and ')}.`)
  for (const why of missing) err(`Not everything is found by its key: ${why}.`)
  return hashes
}

function reasonOf ({ name }: Scheme, kind: 'no-secret' | 'unknown-rules'): string {
  return kind === 'no-secret'
    ? `hashes of keys by the scheme ${name} are made with a secret that this configuration does not have (set secret, or previousSecret, to it)`
    : `this build does not know the scheme ${name} (install the newer release)`
}
