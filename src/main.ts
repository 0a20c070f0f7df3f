#!/usr/bin/env node
/** The program. Checks the version of Node first, before it imports anything that an old Node cannot load. */
import { readFileSync } from 'node:fs'

const FOUND = process.versions.node

if (isOlder(FOUND, neededNode())) {
  process.stderr.write(`onceway: Node.js ${neededNode()} or newer is needed; this is Node.js ${FOUND} (${process.execPath}).\n`)
  process.exitCode = 1
} else {
  const { main } = await import('./cli/main.ts')
  await main()
}

/** The version in `engines` of package.json, without ">=". */
function neededNode (): string {
  const { engines } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { engines: { node: string } }
  return engines.node.replace(/^>=\s*/, '')
}

function isOlder (found: string, needed: string): boolean {
  const [have, want] = [found, needed].map((version) => version.split('.').map((part) => parseInt(part, 10)))
  const at = (want as number[]).findIndex((part, index) => (have as number[])[index] !== part)
  return at !== -1 && (have as number[])[at] as number < ((want as number[])[at] as number)
}
