/** The output of a run: for a terminal, and as the report that is kept with the sources. Pure text. */
import { versions } from '../harness/versions.ts'
import { listed, rowsOf, total } from './counts.ts'
import type { Counts } from './counts.ts'
import { DIFFERING_ROUTES } from './differ.ts'
import { ROUTES } from './routes.ts'
import type { ChaosRoute } from './routes.ts'
import type { ChaosResult } from './run.ts'
import { TOPOLOGIES } from './topologies/topologies.ts'
import type { Topology } from './topologies/topology.ts'

/** One mistake breaks hundreds of records. The first ones suffice. */
export const VIOLATIONS_SHOWN = 5

export function printed (result: ChaosResult): string {
  const {
    seed, topology, seconds, gateways, keys, requests, executions, answers, told, probed, doubled, schemes,
    worstAnswerMs, violations, excused
  } = result
  return [
    `seed ${seed}: ${seconds} s under faults, ${gateways} gateways${topology === 'plain' ? '' : `, topology ${topology}`}`,
    `  faults      ${total(result.faults)}: ${listed(result.faults)}`,
    ...absences(result).map((line) => `  without     ${line}`),
    ...result.outages.map(({ kind, faultMs, withoutMs }) =>
      `  outage      ${kind}: ${withoutMs} ms without service, whole again after ${faultMs} ms`),
    ...promises([result]).map((line) => `  promise     ${line}`),
    `  keys        ${keys}, requests ${requests}, executions ${executions}`,
    `  answers     ${listed(answers)}`,
    `  told        ${listed(told)}`,
    `  by probe    ${listed(probed)}`,
    `  doubled     ${listed(doubled)}`,
    `  ids         ${listed(schemes)}`,
    `  worst       ${worstAnswerMs} ms`,
    `  excused     ${excused} sendings of a process that had just been woken`,
    `  violations  ${violations.length}`,
    ...printedViolations(seed, violations)
  ].join('\n')
}

function routeText ({ name, unknown, weight, drop, switches }: ChaosRoute): string {
  const kind = drop === undefined ? `\`unknown: ${unknown}\`` : `\`mode: drop\`, \`store: ${drop}\``
  return `\`${name}\` (${kind}${switches === true ? ', executes or accepts' : ''}, weight ${weight})`
}

const DIFFERENCES = `The gateways have different configurations, and get others by reloads under requests and by restarts. They differ in leases, fingerprints, \`answerWithin\`,
how much is kept, \`unknown\` of \`wait\`, and whether \`switch\` executes or accepts.
`

export function reported (results: readonly ChaosResult[], args: readonly string[]): string {
  const sum = (of: (result: ChaosResult) => number): number => results.reduce((total, result) => total + of(result), 0)
  const rows = (of: (result: ChaosResult) => Counts): string => rowsOf(results.map(of))
  const differs = args.includes('--differ')
  const topology: Topology = TOPOLOGIES[results[0]?.topology ?? 'plain']
  return `# Chaos run

\`npm run chaos -- ${args.join(' ')}\`, ${new Date().toISOString().slice(0, 10)}: ${Math.round(sum(({ seconds }) => seconds) / 60)} minutes under faults over ${results.length} seeds,
**${sum(({ violations }) => violations.length)} violations** of I1–I11, ${differs ? 'of N5 (a key is executed or accepted), ' : ''}and of mode drop's two rules.

${[...versions(), ...topology.versions?.() ?? []].map((line) => `* ${line}`).join('\n')}

Real gateway processes run behind the run's own TCP proxies. The stores are ${topology.what}. The upstream
writes down and syncs every execution before it answers. Clients retry. Every gateway has these routes:

${(differs ? DIFFERING_ROUTES : ROUTES).map((route) => `* ${routeText(route)}`).join('\n')}
${differs ? `\n${DIFFERENCES}` : ''}
| seed | faults | keys | requests | executions | worst answer | violations |
|---|---|---|---|---|---|---|
${results.map((result) => `| ${result.seed} | ${total(result.faults)} | ${result.keys} | ${result.requests} | ${result.executions} | ${result.worstAnswerMs} ms | ${result.violations.length} |`).join('\n')}
| all | ${sum(({ faults }) => total(faults))} | ${sum(({ keys }) => keys)} | ${sum(({ requests }) => requests)} | ${sum(({ executions }) => executions)} | ${Math.max(...results.map(({ worstAnswerMs }) => worstAnswerMs))} ms | ${sum(({ violations }) => violations.length)} |

Sendings of a process that had just been woken from a pause, whose order is not judged (protocol §10): ${sum(({ excused }) => excused)}.
${results.slice(0, 1).flatMap(absences).map((line) => `\nNot injected: ${line}.\n`).join('')}
${outages(results)}## Faults

| kind | injected |
|---|---|
${rows(({ faults }) => faults)}

## Answers

By status; \`cut\` and \`left\` are connections that broke and clients that went away.

| status | |
|---|---|
${rows(({ answers }) => answers)}

By what the answer said:

| told | |
|---|---|
${rows(({ told }) => told)}

Settled by a probe (\`unknown: probe\`):

| as | |
|---|---|
${rows(({ probed }) => probed)}

Mode drop: went through again after a sender had heard that it was done (Redis may lose a mark):

| route | |
|---|---|
${rows(({ doubled }) => doubled)}
${results.flatMap(({ violations }) => violations).slice(0, VIOLATIONS_SHOWN).map((each) => chapterOf(each.seed, each)).join('')}`
}

interface Violation { readonly invariant: string, readonly detail: string, readonly history: readonly string[] }

/** For a terminal. */
export function printedViolations (seed: number, violations: readonly Violation[]): string[] {
  return violations.slice(0, VIOLATIONS_SHOWN).flatMap(({ invariant, detail, history }) => [
    `  ${invariant} (seed ${seed}): ${detail}`,
    ...history.map((line) => `      ${line}`)
  ])
}

/** For a report. */
export function chapterOf (seed: number, { invariant, detail, history }: Violation): string {
  return `\n## ${invariant}, seed ${seed}\n\n${detail}\n\n\`\`\`\n${history.join('\n')}\n\`\`\`\n`
}

/** For each kind of fault that only this topology has. */
function outages (results: readonly ChaosResult[]): string {
  const byKind = Map.groupBy(results.flatMap((result) => result.outages), ({ kind }) => kind)
  if (byKind.size === 0) return ''
  const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`
  const rows = Array.from(byKind, ([kind, some]) => {
    const without = some.map(({ withoutMs }) => withoutMs).toSorted((a, b) => a - b)
    const median = without[Math.floor((without.length - 1) / 2)] ?? 0
    return `| ${kind} | ${some.length} | ${seconds(without[0] ?? 0)} | ${seconds(median)} | ${seconds(without.at(-1) ?? 0)} |`
  })
  return `## Time without service

The longest time in which no request was executed and stored, at any gateway, while the fault lasted and until the stores were whole again.
A pause that spans two faults counts for both.

| fault | times | shortest | median | longest |
|---|---|---|---|---|
${rows.toSorted().join('\n')}

${promises(results).map((line) => `${line}.\n`).join('')}
`
}

function promises (results: readonly ChaosResult[]): string[] {
  const judged = (truth: string): number => results.reduce((sum, { promisesJudged }) => sum + (promisesJudged[truth] ?? 0), 0)
  const [strict, weakened] = [judged('strict'), judged('weakened')]
  return strict + weakened === 0
    ? []
    : [`What gateways said of the promise was compared with the settings of their database: ${strict} times it was strict, and ${weakened} times weakened`]
}

/** What was not injected, by reason. */
function absences ({ without }: ChaosResult): string[] {
  const byReason = Map.groupBy(Object.entries(without), ([, why]) => why)
  return Array.from(byReason, ([why, kinds]) => `${kinds.map(([kind]) => kind).join(', ')} (${why})`)
}
