/**
 * The hashes under which records of a key may stand: by the store's current scheme of ids, and by the previous one while its records may be
 * left (core/record/schemes.ts). They need the secrets of these schemes.
 */
import { unquotedKey } from '../../core/key/key.ts'
import { keyHash } from '../../core/record/record-id.ts'
import { keysOf } from '../../core/record/schemes.ts'
import type { Scheme } from '../../core/record/schemes.ts'
import type { OperatorStores } from './operators.ts'

/** `missing`: why some records cannot be found by key, a clause each. */
export interface KeyHashes { readonly hashes: Buffer[], readonly missing: readonly string[] }

/** @throws as the store does */
export async function keyHashesOf (
  key: string,
  { records, secrets }: { readonly records: Pick<OperatorStores['records'], 'schemes'>, readonly secrets: () => readonly Buffer[] }
): Promise<KeyHashes> {
  const [{ current, earlier }, candidates] = [await records.schemes(), secrets()]
  const hashes: Buffer[] = []
  // As it stands in a header, or as it stands in a record.
  const spellings = new Set([key, unquotedKey(key) ?? key])
  const missing: string[] = []
  for (const scheme of [current, earlier]) {
    if (scheme === null || (scheme === earlier && earlier.isOver)) continue
    const found = keysOf(scheme, candidates)
    if (found.kind === 'keys') {
      for (const each of spellings) hashes.push(keyHash(each, found.keys.secret))
    } else {
      missing.push(scheme === earlier && earlier.isLost ? `the secret of the scheme ${scheme.name} is lost` : reasonOf(scheme, found.kind))
    }
  }
  return { hashes, missing }
}

function reasonOf ({ name }: Scheme, kind: 'no-secret' | 'unknown-rules'): string {
  return kind === 'no-secret'
    ? `this configuration does not have the secret of the scheme ${name} (set secret or previousSecret to it)`
    : `this build does not know the scheme ${name} (install the newer release)`
}
