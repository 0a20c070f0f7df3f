/**
 * `report.ts DIRECTORY…`: the harness's figures and the judgement of each run, as tables. A directory is named PART-SYSTEM, and has the
 * run's `summary.json` and ledgers. The exit code is 1 if a job was lost or the harness gave up.
 */
import { existsSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { judge } from './ledger.ts'

interface Phase {
  readonly metrics: Readonly<Record<string, { readonly median: number | null, readonly peak: number | null }>>
  readonly [aggregate: string]: unknown
}

interface Summary {
  readonly phases: ReadonlyArray<{ readonly label: string, readonly type: string, readonly duration_s: number }>
  readonly systems: Readonly<Record<string, { readonly phases: Readonly<Record<string, Phase>> }>>
}

const runs = process.argv.slice(2).map((directory) => {
  const [part = '', system = ''] = basename(directory).split('-')
  return { directory, part, system }
})
type Run = typeof runs[number]

const COLUMNS = [
  'accepted/s',
  'done/s',
  'claim p50/p99, ms',
  'end to end p50/p99, ms',
  'waiting, median/peak',
  'dead rows, median/peak',
  'recovery, s'
]

const whole = (value: unknown): string => typeof value === 'number' ? value.toFixed(0) : '–'

function cells ({ metrics, ...aggregates }: Phase): string[] {
  const median = (name: string): string => whole(metrics[name]?.median)
  return [
    median('enqueue_rate'),
    median('completion_rate'),
    `${median('claim_p50_ms')}/${median('claim_p99_ms')}`,
    `${median('end_to_end_p50_ms')}/${median('end_to_end_p99_ms')}`,
    `${median('queue_depth')}/${whole(metrics.queue_depth?.peak)}`,
    `${whole(aggregates.median_dead_tup)}/${whole(aggregates.peak_dead_tup)}`,
    whole(aggregates.chaos_recovery_time_s)
  ]
}

/** None, if the harness gave up. */
function rowsOf ({ directory, part, system }: Run): Array<{ readonly phase: string, readonly row: string[] }> {
  const file = join(directory, 'summary.json')
  if (!existsSync(file)) return []
  const { phases, systems } = JSON.parse(readFileSync(file, 'utf8')) as Summary
  return phases.flatMap(({ label, type, duration_s: seconds }) => {
    const of = systems[system]?.phases[label]
    const phase = `${part}: ${label}, ${type} ${seconds} s`
    return of === undefined ? [] : [{ phase, row: [phase, system, ...cells(of)] }]
  })
}

function print (head: readonly string[], rows: ReadonlyArray<readonly string[]>): void {
  for (const row of [head, head.map(() => '---'), ...rows]) console.log(`| ${row.join(' | ')} |`)
  console.log()
}

const byPhase = Object.values(Object.groupBy(runs.flatMap(rowsOf), ({ phase }) => phase)).flatMap((rows = []) => rows)
print(['phase', 'system', ...COLUMNS], byPhase.map(({ row }) => row))

const judged = runs.map((run) => ({ ...run, ...judge(run.directory) }))
print(['part', 'system', 'accepted', 'done', 'left', 'lost', 'done twice', 'done, and left'], judged.map(
  ({ part, system, accepted, done, left, lost, twice, again }) => {
    const states = Object.entries(left).map(([state, count]) => `${count} ${state}`).join(', ')
    return [part, system, String(accepted), String(done), states || '0', String(lost.length), String(twice), String(again)]
  }
))
for (const { part, system, lost } of judged) {
  if (lost.length > 0) console.log(`${part}: ${system} lost ${lost.slice(0, 5).join(', ')}${lost.length > 5 ? ', …' : ''}`)
}
process.exitCode = judged.some(({ directory, lost }) => lost.length > 0 || !existsSync(join(directory, 'summary.json'))) ? 1 : 0
