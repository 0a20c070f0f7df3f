/** What an outage says when it is over: for a terminal, and as the report that is kept with the sources. Pure but for versions. */
import { cpus } from 'node:os'
import { versions } from '../../harness/versions.ts'
import type { Seen } from './consumer.ts'
import { asksUntilSlow, isDown, underWayAt } from './judge.ts'
import { GATEWAYS } from '../stand.ts'
import { PACES } from './run.ts'
import type { OutageResult } from './run.ts'

const SECOND_MS = 1_000
const WRONGS_SHOWN = 20

interface Row {
  readonly second: number
  readonly phase: string
  readonly accepted: number
  /** By {@link columns}. */
  readonly asked: readonly number[]
  readonly mostUnderWay: readonly number[]
  readonly taken: number
  readonly waiting: number
}

const columns = GATEWAYS.flatMap((gateway) => PACES.map(({ route }) => ({ gateway, route })))

export function isRight ({ wrongs, trouble }: OutageResult): boolean {
  return wrongs.length === 0 && trouble.length === 0
}

export function printed (result: OutageResult): string {
  const { wrongs, trouble } = result
  return [
    summaryOf(result),
    ...wrongs.slice(0, WRONGS_SHOWN).map(({ rule, detail }) => `  WRONG    ${rule}: ${detail}`),
    ...wrongs.length > WRONGS_SHOWN ? [`  WRONG    and ${wrongs.length - WRONGS_SHOWN} more`] : [],
    ...trouble.slice(0, WRONGS_SHOWN).map((detail) => `  TROUBLE  ${detail}`),
    verdictOf(result)
  ].join('\n')
}

export function reported (result: OutageResult, args: readonly string[]): string {
  const { options, wrongs, trouble } = result
  return `# Inbox: a consumer that is down

\`npm run soak:outage -- ${args.join(' ')}\`, ${new Date().toISOString().slice(0, 10)}: **${verdictOf(result)}**.

${summaryOf(result)}

${[...versions(), `${cpus().length} cores`, `seed ${options.seed}`].map((line) => `* ${line}`).join('\n')}

Two gateways run on one Postgres and one Redis, with the senders and the consumer on the same machine. Until the consumer is back, ${options.rate} messages a second arrive.
A third of them is in one of twenty groups, and half of them on each of two routes. In each process ${PACES.map(({ route, concurrency, ratePerSecond }) => `\`${route}\` has ${concurrency} places${ratePerSecond === null ? '' : ` and a rate of ${ratePerSecond} a second`}`).join(', and ')}.

The consumer takes a message in 40 to 120 ms. It is down for ${options.seconds} s. In the first half it resets every connection on which a request comes. In the second half it reads and does not answer.
When it is back, it resets the connections that it had not answered.

## What a stampede is

Each process and each route is judged by what the consumer saw, in its order. Every bound is one of [How many at once](../guides/accept-now-deliver-later.md#how-many-at-once). None depends on
how fast the machine is: a process that waits for an answer has acted after the consumer gave it.

| rule | a stampede is |
|---|---|
| while down | after the first ${asksUntilSlow(PACES[0] as typeof PACES[number])} deliveries of the outage (twice the places, of which those that were under way fail one after another; six pauses of less than a second), two within a second |
| places | more at once than \`concurrency\`, at any moment |
| ramp | once it is back, a delivery that makes more at once than the successes since then allow: 1, then 2 after one, 3 after three, 4 after six, … |
| rate | more since its first answer than \`rate\` gives in that time, and the tenth of a second that was saved up |
| delivered once | a message that was accepted and not taken, or taken twice |
| order | of a group, one before the one before it was taken |

${wrongs.slice(0, WRONGS_SHOWN).map(({ rule, detail }) => `* wrong: ${rule}: ${detail}`).join('\n')}
${trouble.slice(0, WRONGS_SHOWN).map((detail) => `* trouble: ${detail}`).join('\n')}

## By second

Deliveries that began, and the most at once, as ${columns.map(({ gateway, route }) => `${gateway} \`${route}\``).join(' / ')}.

| second | consumer | accepted | asked | at once | taken | not taken yet |
|---|---|---|---|---|---|---|
${rowsOf(result).map(({ second, phase, accepted, asked, mostUnderWay, taken, waiting }) => `| ${[second, phase, accepted, asked.join(' / '), mostUnderWay.join(' / '), taken, waiting].join(' | ')} |`).join('\n')}
`.replace(/\n{3,}/g, '\n\n')
}

function summaryOf ({ options: { seconds }, acceptedAtMs, seen, endedAtMs }: OutageResult): string {
  const asked = seen.filter(({ kind }) => kind === 'asked')
  const upAtMs = seen.find(({ phase }) => phase === 'after')?.atMs ?? endedAtMs
  const downAtMs = seen.find(isDown)?.atMs ?? upAtMs
  const gathered = acceptedAtMs.filter((atMs) => atMs < upAtMs).length -
    seen.filter(({ kind, atMs }) => kind === 'taken' && atMs < upAtMs).length
  const [down, silent] = [asked.filter(isDown), asked.filter(({ phase }) => phase === 'silent')]
  const perSecond = (count: number, ms: number): string => (count / Math.max(1, ms) * SECOND_MS).toFixed(1)
  return `${acceptedAtMs.length} messages. Down for ${seconds} s: ${down.length} deliveries (${perSecond(down.length, upAtMs - downAtMs)} a second over two processes and two routes; ${silent.length} of them into silence), ` +
    `${gathered} messages had gathered. Back: all were taken within ${((endedAtMs - upAtMs) / SECOND_MS).toFixed(1)} s, ${perSecond(asked.length - asked.filter(({ atMs }) => atMs < upAtMs).length, endedAtMs - upAtMs)} deliveries a second.`
}

function verdictOf (result: OutageResult): string {
  return isRight(result) ? 'no stampede, nothing lost' : 'NOT as it should be'
}

function rowsOf ({ seen, acceptedAtMs, beganAtMs, endedAtMs }: OutageResult): Row[] {
  const secondOf = (atMs: number): number => Math.floor((atMs - beganAtMs) / SECOND_MS)
  const bySecond = Map.groupBy(seen, ({ atMs }) => secondOf(atMs))
  const accepted = Map.groupBy(acceptedAtMs, secondOf)
  const under = columns.map((column) => mostBySecond(seen.filter((each) => isOf(each, column)), secondOf))
  let [waiting, phase] = [0, 'before']
  return Array.from({ length: secondOf(endedAtMs) + 1 }, (_, second) => {
    const here = bySecond.get(second) ?? []
    const [came, taken] = [accepted.get(second)?.length ?? 0, here.filter(({ kind }) => kind === 'taken').length]
    waiting += came - taken
    phase = here.at(-1)?.phase ?? phase
    const asked = columns.map((column) => here.filter((each) => each.kind === 'asked' && isOf(each, column)).length)
    return { second, phase, accepted: came, asked, mostUnderWay: under.map((most) => most(second)), taken, waiting }
  })
}

function isOf ({ gateway, route }: Seen, column: typeof columns[number]): boolean {
  return gateway === column.gateway && route === column.route
}

/** The most under way in each second, of which some began before it. */
function mostBySecond (seen: readonly Seen[], secondOf: (atMs: number) => number): (second: number) => number {
  const underWay = underWayAt(seen)
  return (second) => {
    const before = seen.findLastIndex(({ atMs }) => secondOf(atMs) < second)
    const within = underWay.filter((_, index) => secondOf(seen[index]?.atMs ?? 0) === second)
    return Math.max(underWay[before] ?? 0, ...within)
  }
}
