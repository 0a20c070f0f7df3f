/**
 * What is told of a run, as text: the table of what was reached, violations with the command that plays them again, one
 * schedule's whole history, the report. Counts nothing and judges nothing.
 */
import type { HistoryEvent } from '../harness/history.ts'
import type { Explored, Failure, Played } from './explore.ts'
import { TURNS } from './reach.ts'

export interface Told {
  readonly explored: Explored
  readonly seed: number
  readonly seconds: number
}

/** Failures shown one by one; one mistake fails thousands of schedules. */
const FAILURES_SHOWN = 20

export function summaryOf ({ explored, seed, seconds }: Told): string {
  const { schedules, events, turns, failures } = explored
  const rate = Math.round(schedules / Math.max(seconds, 0.001))
  return [
    `${schedules} schedules from seed ${seed}, ${events} events, ${seconds.toFixed(1)} s (${rate} schedules a second)`,
    'schedules that reached',
    ...TURNS.map((turn) => `${String(turns[turn] ?? 0).padStart(9)}  ${turn}`),
    `${failures.length} schedules with violations`,
    ...failureLines(failures)
  ].join('\n')
}

/** Each with the command that plays it again. */
export function failureLines (failures: readonly Failure[]): string[] {
  return failures.slice(0, FAILURES_SHOWN).flatMap(linesOf)
}

function linesOf ({ seed, theme, wrongs }: Failure): string[] {
  return [
    `seed ${seed} (${theme}): ${wrongs.map(({ rule, detail }) => `${rule}: ${detail}`).join('; ')}`,
    `  again: ${replayCommand(seed)}`
  ]
}

function replayCommand (seed: number): string {
  return `npm run simulate -- --replay ${seed}`
}

/** Everything about one schedule: the same text whenever it is played. */
export function transcriptOf ({ schedule, run, wrongs }: Played): string {
  const told = Object.entries(schedule).map(([name, value]) => Array.isArray(value) && typeof value[0] === 'object'
    ? value.map((each) => `${name} ${JSON.stringify(each)}`).join('\n')
    : `${name} ${JSON.stringify(value)}`)
  return [
    ...told,
    ...run.history.events.map(eventLine),
    ...(run.history.rows ?? []).map((row) => `row ${JSON.stringify(row)}`),
    `reached ${TURNS.filter((turn) => run.reach.turns.has(turn)).join(', ')}`,
    ...(wrongs.length === 0 ? ['nothing is wrong'] : wrongs.map(({ rule, detail }) => `${rule}: ${detail}`))
  ].join('\n')
}

function eventLine (event: HistoryEvent): string {
  const { kind, atMs, ...rest } = event
  return `${atMs.toFixed(3).padStart(13)} ${kind.padEnd(8)} ${JSON.stringify(rest)}`
}

export interface ReportFacts extends Told { readonly command: string, readonly version: string, readonly date: string }

export function reportOf (facts: ReportFacts): string {
  const { explored, seed, seconds, command, version, date } = facts
  return [
    '# Deterministic simulation',
    '',
    'The gateway core on simulated stores, upstream, clocks and network: seeded schedules, each played alone and judged by the',
    'invariants of [protocol.md](../concepts/protocol.md). Any schedule is played again, event by event, by its seed:',
    `\`${replayCommand(seed)}\`.`,
    '',
    '| | |',
    '|---|---|',
    `| command | \`${command}\` |`,
    `| date | ${date} |`,
    `| versions | onceway ${version}, Node ${process.version} |`,
    `| seeds | ${seed} to ${seed + explored.schedules - 1} |`,
    `| schedules | ${explored.schedules} |`,
    `| events in their histories | ${explored.events} |`,
    `| time | ${Math.round(seconds)} s |`,
    `| **schedules with violations** | **${explored.failures.length}** |`,
    '',
    '## What was reached',
    '',
    '| schedules | reached |',
    '|---:|---|',
    ...TURNS.map((turn) => `| ${explored.turns[turn] ?? 0} | ${turn} |`),
    '',
    '## What the schedules leaned towards',
    '',
    '| schedules | theme |',
    '|---:|---|',
    ...Object.entries(explored.themes).sort(([one], [other]) => one < other ? -1 : 1).map(([theme, count]) => `| ${count} | ${theme} |`),
    '',
    ...explored.failures.length === 0 ? [] : ['## Violations', '', ...failureLines(explored.failures).map((line) => `    ${line}`), '']
  ].join('\n')
}
