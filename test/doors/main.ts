/**
 * More doors than the suite tries: `npm run test:doors -- --requests 100000 --seed 1 --report docs/reports/doors.md`.
 * Half of the requests are spellings; of the others, half go to the gateway directly, and the rest through nginx and HAProxy.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { playFraming } from './framing.ts'
import type { FramingResult } from './framing.ts'
import { playPeers } from './peers.ts'
import type { PeersResult } from './peers.ts'
import { playSpellings } from './spellings.ts'
import type { SpellingResult } from './spellings.ts'

const { values } = parseArgs({
  options: { requests: { type: 'string', default: '100000' }, seed: { type: 'string', default: '1' }, report: { type: 'string' } }
})
const [requests, seed] = [Number(values.requests), Number(values.seed)]
if (!Number.isSafeInteger(requests) || requests < 8 || !Number.isSafeInteger(seed)) {
  throw new Error('--requests is a number from 8 on, --seed a whole one')
}

const DOORS = [['direct', 1 / 4], ['nginx', 1 / 8], ['haproxy', 1 / 8]] as const
const MIB = 1024 * 1024

const framing: FramingResult[] = []
for (const [door, share] of DOORS) {
  framing.push(await cleaned(async (t) => playFraming(t, { door, seed, requests: Math.ceil(requests * share) })))
}
const spellings = playSpellings({ seed, requests: Math.ceil(requests / 2) })
const peers = await cleaned(async (t) => playPeers(t, { seed }))
const violations = [...framing.flatMap((each) => each.violations), ...spellings.violations, ...peers.violations]
const report = reportOf(framing, spellings, peers)
if (values.report === undefined) console.log(report)
else writeFileSync(values.report, report)
for (const violation of violations) console.error(`${violation}\n`)
process.exit(violations.length === 0 ? 0 : 1)

async function cleaned<T> (work: (t: { after: (end: () => unknown) => void }) => Promise<T>): Promise<T> {
  const ends: Array<() => unknown> = []
  try {
    return await work({ after: (end) => { ends.push(end) } })
  } finally {
    for (const end of ends.reverse()) await end()
  }
}

function reportOf (
  plays: readonly FramingResult[],
  { spelled, reached, outcomes, violations: unguarded }: SpellingResult,
  { plays: peerPlays, violations: held }: PeersResult
): string {
  const changes = new Map<string, number>()
  for (const play of plays) for (const [name, count] of play.changes) changes.set(name, (changes.get(name) ?? 0) + count)
  const shares = (of: ReadonlyMap<string, number>): string =>
    Array.from(of).toSorted(([, a], [, b]) => b - a).map(([name, count]) => `${name}: ${count}`).join(', ')
  return `# Doors

Made by \`npm run test:doors -- --requests ${requests} --seed ${seed}\` with Node ${process.version}, ${new Date().toISOString().slice(0, 10)}. What is tried, and what it
is held against: [threat-model.md](../concepts/threat-model.md#the-doors).

## Framing and headers

| Through | Requests | Reached the origin | Answers by status | Violations |
|---|---|---|---|---|
${plays.map(({ door, version, requests: sent, arrived, statuses, violations: wrong }) => `| ${door}${version === null ? '' : ` ${version}`} | ${sent} | ${arrived} | ${shares(statuses)} | ${wrong.length} |`).join('\n')}

What was changed, in how many: ${shares(changes)}.

## Spellings of paths and hosts

${spelled} targets; ${reached} of them are a guarded route's to one of 24 servers each that were put together from lenient habits.
By what the gateway does: ${shares(outcomes)}. Taken for a guarded one by a server, and unguarded: ${unguarded.length}.

## Peers that are slow, stop or want too much

| What | Peers | Others served meanwhile | Memory rose by, MiB |
|---|---|---|---|
${peerPlays.map(({ name, peers: count, served, roseBytes }) => `| ${name} | ${count} | ${served} | ${Math.round(roseBytes / MIB)} |`).join('\n')}

Violations: ${held.length}.
`
}
