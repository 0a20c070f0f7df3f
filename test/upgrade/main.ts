/**
 * `npm run upgrade -- --seconds N --store redis|postgres|sqlite`: from the release before to the tree, back, and so on for that
 * long, on Postgres with Redis, on Postgres alone, or on the embedded store; without `--store` one after the other. Exit 1 on any
 * finding.
 */
import { parseArgs } from 'node:util'
import { startServers } from '../e2e/world.ts'
import type { Servers } from '../e2e/world.ts'
import { positive } from '../harness/options.ts'
import { play } from './play.ts'
import { mayGoBack, releaseBefore, TREE } from './release.ts'
import type { Stores } from './world.ts'

const STORES: Readonly<Record<string, (servers: Servers) => Stores>> = {
  redis: (servers) => servers,
  postgres: ({ postgres }) => ({ postgres, redis: null }),
  sqlite: () => ({ postgres: null, redis: null })
}

const { values } = parseArgs({ options: { seconds: { type: 'string', default: '60' }, store: { type: 'string' } } })
const seconds = positive('seconds', values.seconds)
const names = values.store === undefined ? Object.keys(STORES) : [values.store]
if (names.some((name) => !Object.hasOwn(STORES, name))) throw new RangeError(`--store wants one of ${Object.keys(STORES).join(', ')}`)

const before = releaseBefore()
const servers = await startServers()
let found = 0
for (const name of names) {
  const endings: Array<() => Promise<void>> = []
  const stores = STORES[name]?.(servers) as Stores
  const back = mayGoBack(before, TREE, stores.postgres === null ? 'sqlite' : 'postgres') ? [before] : []
  const { findings, counts } = await play(
    { after: (end) => { endings.push(end) } },
    { stores, releases: [before, TREE, ...back], seconds: back.length === 0 ? 0 : seconds }
  )
  console.log([`${name}: ${counts}; ${findings.length} findings`, ...findings].join('\n  '))
  found += findings.length
  for (const end of endings.toReversed()) await end()
}
await servers.stop()
// Whatever is still open belongs to nobody any more.
process.exit(found > 0 ? 1 : 0)
