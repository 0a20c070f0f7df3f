/**
 * The routes of docs/guides/webhook-recipes.md: its first block, and all the others under it, as one configuration;
 * those of the inbox as a file.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadConfig } from '../../src/config/load.ts'
import type { GuardedRoute } from '../../src/core/policy/policy.ts'

const PAGE = fileURLToPath(new URL('../../docs/guides/webhook-recipes.md', import.meta.url))

const WITH_INBOX = '\n## With the inbox\n'

export const RECIPES_TEXT = readFileSync(PAGE, 'utf8')

/** By name, without those of the inbox. */
export function recipes (): ReadonlyMap<string, GuardedRoute> {
  const [page = ''] = RECIPES_TEXT.split(WITH_INBOX)
  const directory = mkdtempSync(join(tmpdir(), 'onceway-recipes-'))
  try {
    const file = join(directory, 'onceway.yaml')
    writeFileSync(file, yamlIn(page).join(''))
    const { routes } = loadConfig(file, { env: {} })
    return new Map(
      routes.flatMap((route) => route.idempotency === null ? [] : [[route.name, { ...route, idempotency: route.idempotency }]])
    )
  } finally {
    rmSync(directory, { recursive: true })
  }
}

/** The first block, and those under the inbox's heading. */
export function inboxRecipes (): string {
  const [page = '', inbox] = RECIPES_TEXT.split(WITH_INBOX)
  if (inbox === undefined) throw new Error('docs/guides/webhook-recipes.md says nothing of the inbox')
  return [...yamlIn(page).slice(0, 1), ...yamlIn(inbox)].join('')
}

function yamlIn (text: string): string[] {
  return Array.from(text.matchAll(/```yaml\n([\s\S]*?)```/g), ([, block]) => block as string)
}
