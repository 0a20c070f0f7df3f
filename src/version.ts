/** The version of this build, as package.json says. The file is one level up from both src/ and dist/. */
import { readFileSync } from 'node:fs'

export const VERSION: string = versionOf(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')))

function versionOf (manifest: unknown): string {
  const { version } = manifest as { version?: unknown }
  return typeof version === 'string' ? version : 'unknown'
}
