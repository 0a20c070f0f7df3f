/** What a run says when it is over, as the report that is kept with the results. */
import { machine } from '../growth/report.ts'
import type { Memory } from './memory.ts'
import type { Flatness, RequestsResult } from './requests.ts'
import type { MemoryResult } from './run.ts'
import type { WaitingResult } from './waiting.ts'

const MIB = 1024 * 1024

export function isRight ({ flat, wrongCount }: MemoryResult): boolean { return flat && wrongCount === 0 }

export function reported (result: MemoryResult, args: readonly string[]): string {
  const { requests, waiting, upstream, wrong } = result
  return `# Memory

\`npm run bench:memory${args.length === 0 ? '' : ` -- ${args.join(' ')}`}\`, ${new Date().toISOString().slice(0, 10)}: **${isRight(result) ? 'flat and right' : 'not flat and right'}**, ${upstream.executions} executions of ${upstream.keys} keys, ${upstream.twice} executed twice.

${machine().map((line) => `* ${line}`).join('\n')}

${wrong.map((what) => `* wrong: ${what}`).join('\n')}

${requests.map(requestsSection).join('\n')}
${waiting.length === 0 ? '' : waitingSection(waiting)}`.replace(/\n{3,}/g, '\n\n').trimEnd() + '\n'
}

function requestsSection ({ stores, requests, perSecond, samples, rss, heap }: RequestsResult): string {
  return `## ${requests} first requests, ${stores}

${perSecond.toFixed(0)} a second. Flat: the median of the last third of the samples is not above that of the middle third by more than is allowed.
The heap of a sample is the lowest of its looks, which is about what a collection left.

| | middle third MiB | last third MiB | allowed | |
|---|---|---|---|---|
| RSS | ${flatnessCells(rss)} |
| heap | ${flatnessCells(heap)} |

| requests | RSS MiB | heap MiB | external MiB |
|---|---|---|---|
${samples.map((sample) => `| ${sample.requests} | ${memoryCells(sample)} |`).join('\n')}
`
}

function waitingSection (results: readonly WaitingResult[]): string {
  const { waiting, keys } = results[0] as WaitingResult
  return `## ${waiting} clients that wait for ${keys} keys

The first of each key is executed and held by the upstream; the others wait for it. Then it is released, all connections
close, a few ordinary requests go on for a while, so that there are collections, and the next wave comes. Back: the later half of the waves neither needs more RSS nor keeps more heap than the first half.

| | RSS MiB | heap MiB | external MiB | answered in ms |
|---|---|---|---|---|
${results.flatMap(waitingRows).join('\n')}

${results.map(({ stores, perWaiter, back }) => `* ${stores}: ${(perWaiter.rss / 1024).toFixed(1)} KiB of RSS a waiter, ${(perWaiter.heap / 1024).toFixed(1)} KiB of heap and buffers; ${back ? 'back' : '**not back**'}`).join('\n')}
`
}

function waitingRows ({ stores, before, waves }: WaitingResult): string[] {
  return [
    `| ${stores}, before | ${memoryCells(before)} | |`,
    ...waves.flatMap(({ waiting, after, answeredMs }, index) => [
      `| wave ${index + 1}, they wait | ${memoryCells(waiting)} | ${answeredMs.toFixed(0)} |`,
      `| wave ${index + 1}, after | ${memoryCells(after)} | |`
    ])
  ]
}

function memoryCells ({ rss, heap, external }: Memory): string { return [rss, heap, external].map(mib).join(' | ') }

function flatnessCells ({ middle, last, allowed, flat }: Flatness): string {
  return `${[middle, last, allowed].map(mib).join(' | ')} | ${flat ? 'flat' : '**rises**'}`
}

function mib (bytes: number): string { return (bytes / MIB).toFixed(1) }
