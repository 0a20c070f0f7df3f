/** What a run says when it is over: for a terminal, and as the report that is kept with the sources. Pure text. */
import { versions } from '../harness/versions.ts'
import { ROUTES } from './routes.ts'
import type { ChaosResult } from './run.ts'
import { TOPOLOGIES } from './topologies/topologies.ts'

/** One mistake breaks hundreds of records; the first ones tell it. */
const VIOLATIONS_SHOWN = 5

export function printed (result: ChaosResult): string {
  const { seed, topology, seconds, gateways, keys, requests, executions, answers, told, probed, doubled, worstAnswerMs, violations, excused } = result
  return [
    `seed ${seed}: ${seconds} s under faults, ${gateways} gateways${topology === 'plain' ? '' : `, topology ${topology}`}`,
    `  faults      ${total(result.faults)}: ${counts(result.faults)}`,
    ...absences(result).map(line => `  without     ${line}`),
    `  keys        ${keys}, requests ${requests}, executions ${executions}`,
    `  answers     ${counts(answers)}`,
    `  told        ${counts(told)}`,
    `  by probe    ${counts(probed)}`,
    `  doubled     ${counts(doubled)}`,
    `  worst       ${worstAnswerMs} ms`,
    `  excused     ${excused} sendings of a process that had just been woken`,
    `  violations  ${violations.length}`,
    ...violations.slice(0, VIOLATIONS_SHOWN).flatMap(({ invariant, detail, history }) => [`  ${invariant} (seed ${seed}): ${detail}`, ...history.map(line => `      ${line}`)])
  ].join('\n')
}

export function reported (results: readonly ChaosResult[], args: readonly string[]): string {
  const sum = (of: (result: ChaosResult) => number): number => results.reduce((total, result) => total + of(result), 0)
  const merged = (of: (result: ChaosResult) => Readonly<Record<string, number>>): string => {
    const all = new Map<string, number>()
    for (const [name, count] of results.flatMap(result => Object.entries(of(result)))) all.set(name, (all.get(name) ?? 0) + count)
    return rows(Array.from(all).sort(([one], [other]) => one.localeCompare(other)))
  }
  return `# Chaos run

\`npm run chaos -- ${args.join(' ')}\`, ${new Date().toISOString().slice(0, 10)}: ${Math.round(sum(({ seconds }) => seconds) / 60)} minutes under faults over ${results.length} seeds,
**${sum(({ violations }) => violations.length)} violations** of I1–I11, and of mode drop's two rules.

${versions().map(line => `* ${line}`).join('\n')}

Real gateway processes behind the run's own TCP proxies, ${TOPOLOGIES[results[0]?.topology ?? 'plain'].what}, an upstream
that writes down and syncs every execution before it answers, and clients that retry. Side by side on every gateway:
${ROUTES.map(({ name, unknown, weight, drop }) => `\`${name}\` (${drop === undefined ? `\`unknown: ${unknown}\`` : `\`mode: drop\`, \`store: ${drop}\``}, weight ${weight})`).join(', ')}.

| seed | faults | keys | requests | executions | worst answer | violations |
|---|---|---|---|---|---|---|
${results.map(result => `| ${result.seed} | ${total(result.faults)} | ${result.keys} | ${result.requests} | ${result.executions} | ${result.worstAnswerMs} ms | ${result.violations.length} |`).join('\n')}
| all | ${sum(({ faults }) => total(faults))} | ${sum(({ keys }) => keys)} | ${sum(({ requests }) => requests)} | ${sum(({ executions }) => executions)} | ${Math.max(...results.map(({ worstAnswerMs }) => worstAnswerMs))} ms | ${sum(({ violations }) => violations.length)} |

Sendings of a process that had just been woken from a pause, whose order is not judged (protocol §10): ${sum(({ excused }) => excused)}.
${results.slice(0, 1).flatMap(absences).map(line => `\nNot injected: ${line}.\n`).join('')}
## Faults

| kind | injected |
|---|---|
${merged(({ faults }) => faults)}

## Answers

By status; \`cut\` and \`left\` are connections that broke and clients that went away.

| status | |
|---|---|
${merged(({ answers }) => answers)}

By what was told:

| told | |
|---|---|
${merged(({ told }) => told)}

Settled by a question to the upstream (\`unknown: probe\`):

| as | |
|---|---|
${merged(({ probed }) => probed)}

Mode drop: went through again after a sender had been told that it was done (Redis may lose a mark):

| route | |
|---|---|
${merged(({ doubled }) => doubled)}
${results.flatMap(({ violations }) => violations).slice(0, VIOLATIONS_SHOWN).map(({ seed, invariant, detail, history }) => `\n## ${invariant}, seed ${seed}\n\n${detail}\n\n\`\`\`\n${history.join('\n')}\n\`\`\`\n`).join('')}`
}

function rows (entries: ReadonlyArray<[string, number]>): string {
  return entries.map(([name, count]) => `| ${name} | ${count} |`).join('\n')
}

function counts (of: Readonly<Record<string, number>>): string {
  return Object.entries(of).map(([name, count]) => `${name} ${count}`).join(', ')
}

function total (of: Readonly<Record<string, number>>): number {
  return Object.values(of).reduce((sum, count) => sum + count, 0)
}

/** What was not injected, by reason. */
function absences ({ without }: ChaosResult): string[] {
  const byReason = Map.groupBy(Object.entries(without), ([, why]) => why)
  return Array.from(byReason, ([why, kinds]) => `${kinds.map(([kind]) => kind).join(', ')} (${why})`)
}
