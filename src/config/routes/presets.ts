/**
 * Adds the scope, fingerprint and onMismatch of a route's presets where the file has none. If two presets of a route differ, the file must
 * set the value itself.
 */
import type { Preset } from '../../core/policy/key-source.ts'
import { PRESETS } from '../../core/key/presets.ts'
import { mistake } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { FINGERPRINT_DEFAULTS } from './schema.ts'
import { isTree, valueAt } from '../read/tree.ts'

/** Changes `tree` in place. Runs before profiles and schema fill in their defaults. */
export function spreadPresets (tree: unknown): Mistake[] {
  const routes = valueAt(tree, ['routes'])
  if (!Array.isArray(routes)) return []
  return routes.flatMap((route, index) => {
    const policy = valueAt(route, ['idempotency'])
    return isTree(policy) ? spread(policy, ['routes', index, 'idempotency']) : []
  })
}

function spread (policy: Record<string, unknown>, path: Path): Mistake[] {
  const from = valueAt(policy, ['key', 'from'])
  const rows = [from].flat().map((source) => typeof source === 'string' ? PRESETS.get(source) ?? null : null)
  if (rows.every((row) => row === null)) return []
  const setDefault = (name: string, of: (row: Preset | null) => unknown): Mistake[] => {
    if (Object.hasOwn(policy, name)) return []
    const values = new Map(rows.map((row) => [JSON.stringify(of(row) ?? null), of(row)]))
    const [value] = values.values()
    if (values.size > 1) {
      return [mistake([...path, 'key', 'from'], `has presets with a different ${name}; set ${name} on this route`)]
    }
    if (value !== undefined) policy[name] = structuredClone(value)
    return []
  }
  return [
    ...setDefault('scope', (row) => row?.scope ?? 'credential'),
    // The fingerprint of profile relay is that of the presets. With mode drop nothing is compared.
    ...(policy.profile === 'relay' || policy.mode === 'drop'
      ? []
      : setDefault('fingerprint', (row) => row?.fingerprint === 'target' ? FINGERPRINT_DEFAULTS.relay : undefined)),
    ...(rows.some((row) => row?.mismatchStatus !== undefined)
      ? setDefault('onMismatch', (row) => row?.mismatchStatus === undefined ? undefined : { status: row.mismatchStatus })
      : [])
  ]
}
