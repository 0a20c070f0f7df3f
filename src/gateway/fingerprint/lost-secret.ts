/**
 * If a secret is lost (core/record/schemes.ts), records under its ids cannot be found by id any more.
 * So a request that matches such a record by key and fingerprint is not executed. Its outcome is unknown, and an operator resolves it.
 */
import { recomputeFingerprint } from '../../core/fingerprint/fingerprint.ts'
import type { KeyedRequest, Part } from './keyed-request.ts'
import type { Ids } from '../shared/ids.ts'
import type { Deps } from '../shared/deps.ts'

/** Whether the request, or one of its parts, may be under a lost secret. @throws as the store does */
export async function mayBeLost (
  context: {
    readonly ids: Pick<Ids, 'lost' | 'lostAlgorithms'>
    readonly deps: { readonly records: Pick<Deps['records'], 'lostAlgorithms' | 'mayBeLost'> }
  },
  keyed: Pick<KeyedRequest, 'route' | 'asked' | 'identified'>,
  parts: ReadonlyArray<Pick<Part, 'asked' | 'identified'>> | null
): Promise<boolean> {
  const { lost } = context.ids
  if (lost === null) return false
  const { records } = context.deps
  const { name: route } = keyed.route
  const place = `${lost} ${route}`
  const algorithms = context.ids.lostAlgorithms.get(place) ?? await records.lostAlgorithms(lost, route)
  context.ids.lostAlgorithms.set(place, algorithms)
  if (algorithms.length === 0) return false
  const found = await Promise.all((parts ?? [keyed]).map(async ({ asked, identified: { key } }) => {
    const made = algorithms.map((alg) => ({ alg, under: recomputeFingerprint(asked, alg) }))
    // The algorithm is of another build, so that the request cannot be compared: it may be this record.
    if (made.some(({ under }) => under.kind === 'unknown')) return true
    const fingerprints = made.flatMap(({ alg, under }) => under.kind === 'value' ? [{ alg, value: under.value }] : [])
    return records.mayBeLost({ lost, route, key, fingerprints })
  }))
  return found.some((each) => each)
}
