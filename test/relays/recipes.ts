/** The routes of docs/relay-recipes.md: its first block, and all the others under it, as one configuration. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadConfig } from '../../src/config/load.ts'
import type { GuardedRoute } from '../../src/core/policy.ts'

const PAGE = fileURLToPath(new URL('../../docs/relay-recipes.md', import.meta.url))

/** By name. */
export function recipes (): ReadonlyMap<string, GuardedRoute> {
  const blocks = Array.from(readFileSync(PAGE, 'utf8').matchAll(/```yaml\n([\s\S]*?)```/g), ([, text]) => text as string)
  const directory = mkdtempSync(join(tmpdir(), 'onceway-recipes-'))
  try {
    const file = join(directory, 'onceway.yaml')
    writeFileSync(file, blocks.join(''))
    const { routes } = loadConfig(file, { env: {} })
    return new Map(routes.flatMap(route => route.idempotency === null ? [] : [[route.name, { ...route, idempotency: route.idempotency }]]))
  } finally {
    rmSync(directory, { recursive: true })
  }
}
