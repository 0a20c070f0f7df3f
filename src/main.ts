#!/usr/bin/env -S node --max-semi-space-size=32
/**
 * The program. Checks the version of Node first, before it imports anything that an old Node cannot load.
 *
 * V8's young generation is bounded above, and with it some 80 MiB of memory: by default it grows to three times 64 MiB. Only the command
 * line can say so. Measured (Node 24.21, 256 connections, first requests on Postgres): no more processor time than by default.
 */
import { readFileSync } from 'node:fs'
import { setFlagsFromString } from 'node:v8'

const FOUND = process.versions.node

if (isOlder(FOUND, neededNode())) {
  process.stderr.write(`onceway: Node.js ${neededNode()} or newer is needed; this is Node.js ${FOUND} (${process.execPath}).\n`)
  process.exitCode = 1
} else {
  // Where most objects of a kind have survived two collections, V8 makes all later ones of that kind in the old generation at once. A burst
  // right after the start has this effect on what belongs to a request. From then on each old request keeps all that is attached to it
  // until the next full collection. Measured (Node 24.21, 256 connections, first requests on Postgres): in most processes, at a fifth
  // of their processor time and 100 MiB.
  setFlagsFromString('--no-allocation-site-pretenuring')
  // The old generation is collected when it has grown by half, not by three times. So a burst of waiters leaves less behind.
  setFlagsFromString('--heap-growing-percent=50')
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
