/**
 * More pairs than the suite plays, or those of one world again: `npm run pairs -- --pairs 1000000 --seed 1`, and
 * `--on sqlite` or `--on postgres` for those over HTTP.
 */
import { parseArgs } from 'node:util'
import { startPostgres } from '../harness/postgres.ts'
import { openInProcess } from './in-process.ts'
import { openOnPostgres, openOnSqlite } from './over-http.ts'
import type { Cleanups } from './over-http.ts'
import { newCounts, PER_WORLD, play } from './play.ts'
import type { PlayOptions } from './play.ts'

const { values: { pairs, seed, on } } = parseArgs({
  options: {
    pairs: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
    on: { type: 'string', default: 'memory' }
  }
})
const cleanups: Array<() => unknown> = []
const after: Cleanups = { after: (cleanup) => { if (cleanup !== undefined) cleanups.push(cleanup as () => unknown) } }

async function stageOn (store: string): Promise<Pick<PlayOptions, 'store' | 'marks' | 'certificates' | 'open'>> {
  switch (store) {
    case 'memory': return { store, marks: 'memory', certificates: true, open: openInProcess }
    case 'sqlite': return { store, marks: 'database', certificates: false, open: async (world) => openOnSqlite(after, world) }
    case 'postgres': {
      const server = await startPostgres()
      cleanups.push(async () => server.stop())
      return { store, marks: 'database', certificates: false, open: async (world) => openOnPostgres(after, world, server.url) }
    }
    default: throw new Error(`--on memory, sqlite or postgres, and not ${store}`)
  }
}

const counts = newCounts()
// What waits in a gateway holds no process.
const alive = setInterval(() => {}, 1_000)
try {
  const played = await play({ ...await stageOn(on), seed: Number(seed), pairs: Number(pairs), perWorld: PER_WORLD, switches: true }, counts)
  const { violations } = played
  console.log(violations.length === 0
    ? `${played.pairs} pairs: ${Array.from(counts.pairs, ([name, count]) => `${count} ${name}`).join(', ')}`
    : violations.join('\n\n'))
  process.exitCode = violations.length === 0 ? 0 : 1
} finally {
  clearInterval(alive)
  for (const cleanup of cleanups) await cleanup()
}
