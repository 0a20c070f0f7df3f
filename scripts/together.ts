/**
 * Many small files in one process, one after another: most of what each of them would cost alone is the start of a process.
 * They change nothing that outlives a test. A file of theirs that fails is found alone by `npm test -- FILE`.
 */
import { globSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { join } from 'node:path'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const TOGETHER = ['core', 'config', 'gateway', 'regress', 'http', 'inbox', 'background', 'telemetry', 'routing']

export function filesTogether (): string[] {
  return globSync(`test/{${TOGETHER.join(',')}}/**/*.test.ts`, { cwd: ROOT }).toSorted()
}

if (import.meta.main) for (const file of filesTogether()) await import(pathToFileURL(join(ROOT, file)).href)
