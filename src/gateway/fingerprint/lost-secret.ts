/**
 * Where a secret was lost (core/record/schemes.ts), what stands under the ids that it made can be found by nobody. So what asks the same
 * as one of those is not executed: its outcome is not known, and an operator says what it was.
 */
import { recomputeFingerprint } from '../../core/fingerprint/fingerprint.ts'
import type { KeyedRequest, Part } from './keyed-request.ts'
import type { Ids } from '../shared/ids.ts'
import type { Deps } from '../shared/deps.ts'

/** @throws as the store does */
export async function mayBeLost (
  context: { readonly ids: Ids, readonly deps: Deps },
  keyed: KeyedRequest,
  parts: readonly Part[] | null
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
    // Made by a build that this one does not know: whatever it is, it may be this.
    if (made.some(({ under }) => under.kind === 'unknown')) return true
    const fingerprints = made.flatMap(({ alg, under }) => under.kind === 'value' ? [{ alg, value: under.value }] : [])
    return records.mayBeLost({ lost, route, key, fingerprints })
  }))
  return found.some((each) => each)
}
