/**
 * The hashes of an operator's `--key`: by the store's current scheme of ids, and by the previous one while its records may be left
 * (core/record/schemes.ts). They need the secrets of these schemes.
 */
import { keyHash } from '../core/record/record-id.ts'
import { keysOf } from '../core/record/schemes.ts'
import type { Scheme } from '../core/record/schemes.ts'
import { StartError } from '../ports/errors.ts'
import type { RecordStore } from '../ports/records.ts'
import type { Terminal } from './command.ts'

export interface KeyedStore {
  readonly records: Pick<RecordStore, 'schemes'>
  /** The secrets of ids that this configuration has. @throws StartError */
  readonly secrets: () => readonly Buffer[]
}

/** Warns on stderr about a scheme whose secret is missing. @throws StartError if no scheme can be searched */
export async function keyHashesOf (key: string, { records, secrets }: KeyedStore, { err }: Terminal): Promise<Buffer[]> {
  const [{ current, earlier }, candidates] = [await records.schemes(), secrets()]
  const hashes: Buffer[] = []
  const missing: string[] = []
  for (const scheme of [current, earlier]) {
    if (scheme === null || (scheme === earlier && earlier.isOver)) continue
    const found = keysOf(scheme, candidates)
    if (found.kind === 'keys') {
      hashes.push(keyHash(key, found.keys.secret))
    } else {
      missing.push(scheme === earlier && earlier.isLost ? `the secret of the scheme ${scheme.name} is lost` : reasonOf(scheme, found.kind))
    }
  }
  if (hashes.length === 0 && missing.length > 0) throw new StartError(`Cannot search by key: ${missing.join(', and ')}.`)
  for (const why of missing) err(`Not everything is found by key: ${why}.`)
  return hashes
}

function reasonOf ({ name }: Scheme, kind: 'no-secret' | 'unknown-rules'): string {
  return kind === 'no-secret'
    ? `this configuration does not have the secret of the scheme ${name} (set secret or previousSecret to it)`
    : `this build does not know the scheme ${name} (install the newer release)`
}
