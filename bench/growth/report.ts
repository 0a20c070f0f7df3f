/** What a run says when it is over, as the report that is kept with the results. Pure but for versions. */
import { cpus, totalmem } from 'node:os'
import { versions } from '../../test/harness/versions.ts'
import { median } from '../../test/soak/verdict.ts'
import type { ChurnResult } from './churn.ts'
import type { GrowthResult } from './run.ts'
import { REPLAYS_OF_NONE } from './sizes.ts'
import type { Cell, SeededTable, SizesResult } from './sizes.ts'
import type { Phase, SweepResult } from './sweep.ts'
import type { VariantsResult } from './variants.ts'

const MIB = 1024 * 1024

export function reported (result: GrowthResult, args: readonly string[]): string {
  const { settings, sizes, sweeps, churn, variants, upstream, wrongCount, wrong } = result
  return `# Growth

\`npm run bench:growth${args.length === 0 ? '' : ` -- ${args.join(' ')}`}\`, ${new Date().toISOString().slice(0, 10)}: **${wrongCount === 0 ? 'every answer right' : `${wrongCount} wrong`}**, ${upstream.executions} executions of ${upstream.keys} keys, ${upstream.twice} executed twice.

${machine().map((line) => `* ${line}`).join('\n')}
* ${Object.entries(settings).map(([name, value]) => `${name} = ${value}`).join(', ')}

${wrong.map((what) => `* wrong: ${what}`).join('\n')}

${sizes === null ? '' : sizesSection(sizes)}
${sweeps.length === 0 ? '' : sweepSection(sweeps)}
${churn.length === 0 ? '' : churnSection(churn)}
${variants === null ? '' : variantsSection(variants)}`.replace(/\n{3,}/g, '\n\n').trimEnd() + '\n'
}

export function machine (): string[] {
  return [...versions(), `${cpus().length} × ${cpus()[0]?.model ?? 'unknown'}, ${Math.round(totalmem() / MIB / 1024)} GiB; servers, upstream and clients on the same machine`]
}

// ---------------------------------------------------------------- sizes

function sizesSection ({ tables, cells }: SizesResult): string {
  const base = tables[0]?.records ?? 0
  return `## Sizes

Seeded into the table as the migration makes it, with all its indexes. Requests at one size and another follow each other
within a round; a ratio is the median of same-round ratios over ${base} records (smallest–largest). A table of 0 holds ${REPLAYS_OF_NONE} records for the replays,
whose keys are drawn from the whole table; answers come from neither memory nor copies.

| records | seeded a second | cycles of claim, settle and sweep | a second | autovacuum | bytes a record | heap | toast | indexes | WAL a record |
|---|---|---|---|---|---|---|---|---|---|
${tables.map((table) => `| ${tableCells(table).join(' | ')} |`).join('\n')}

| stores | work | at once | records | p50 ms | p99 ms | a second | p50 over ${base} | p99 over ${base} | claim ms (p50, p99) | settle ms (p50, p99) | WAL a request |
|---|---|---|---|---|---|---|---|---|---|---|---|
${groupsOf(cells).map((group) => `| ${cellCells(group, cells, base).join(' | ')} |`).join('\n')}
`
}

function tableCells ({ records, seeded, aged, sizes, walPerRecord }: SeededTable): string[] {
  const each = (bytes: number): string => (bytes / sizes.records).toFixed(0)
  const indexes = Object.entries(sizes.indexes).map(([name, bytes]) => `${name} ${each(bytes)}`).join(', ')
  return [
    String(records),
    seeded.perSecond.toFixed(0),
    ...aged === null ? ['–', '–', '–'] : [String(aged.cycles), (aged.cycles / aged.seconds).toFixed(0), `${aged.autovacuums} times`],
    each(sizes.total),
    each(sizes.heap),
    each(sizes.toast),
    indexes,
    walPerRecord.toFixed(0)
  ]
}

/** The cells that differ in their round alone. */
function groupsOf (cells: readonly Cell[]): Cell[][] {
  const groups = new Map<string, Cell[]>()
  for (const cell of cells) {
    const { stores, work, concurrency, records } = cell
    const name = [stores, work, concurrency, records].join('/')
    groups.set(name, [...groups.get(name) ?? [], cell])
  }
  const sorted = [...groups].sort(([a], [b]) => a.localeCompare(b, 'en', { numeric: true }))
  return sorted.map(([, group]) => group)
}

function cellCells (group: readonly Cell[], cells: readonly Cell[], base: number): string[] {
  const { stores, work, concurrency, records } = group[0] as Cell
  const over = (value: (cell: Cell) => number): string => {
    if (records === base) return '1'
    return spread(group.map((cell) => value(cell) / value(sameRound(cells, cell, base))))
  }
  const mid = (value: (cell: Cell) => number, digits = 2): string => median(group.map(value)).toFixed(digits)
  const times = (operation: 'claim_insert' | 'settle'): string => group[0]?.operations[operation] === undefined
    ? '–'
    : `${mid((cell) => cell.operations[operation]?.p50Ms ?? 0)}, ${mid((cell) => cell.operations[operation]?.p99Ms ?? 0)}`
  return [
    stores, work, String(concurrency), String(records),
    mid(({ measured }) => measured.p50Ms), mid(({ measured }) => measured.p99Ms), mid(({ measured }) => measured.perSecond, 0),
    over(({ measured }) => measured.p50Ms), over(({ measured }) => measured.p99Ms),
    times('claim_insert'), times('settle'), mid(({ walPerRequest }) => walPerRequest, 0)
  ]
}

function sameRound (cells: readonly Cell[], { stores, work, concurrency, round }: Cell, records: number): Cell {
  const found = cells.find((cell) =>
    cell.stores === stores && cell.work === work && cell.concurrency === concurrency && cell.round === round && cell.records === records)
  if (found === undefined) throw new Error(`no cell of ${records} records in round ${round}`)
  return found
}

function spread (ratios: readonly number[]): string {
  return `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`
}

// ---------------------------------------------------------------- sweep

function sweepSection (sweeps: readonly SweepResult[]): string {
  const { rate, records, stores } = sweeps[0] as SweepResult
  return `## Sweep

${records} records end in the same second in a table of ${2 * records}, under ${rate} guarded requests a second (open loop, a tenth of them replays; ${stores}).

| | p50 ms | p99 ms | longest ms | p99 over before | seconds |
|---|---|---|---|---|---|
${sweeps.flatMap(phaseRows).join('\n')}

| | swept a second | WAL a swept record | autovacuums meanwhile | dead rows after | vacuum s | vacuum WAL MiB | MiB before | MiB swept | MiB vacuumed |
|---|---|---|---|---|---|---|---|---|---|
${sweeps.map((sweep) => `| ${sweepCells(sweep).join(' | ')} |`).join('\n')}
`
}

function nameOf ({ besideTransaction }: SweepResult): string {
  return besideTransaction ? 'beside a long transaction' : 'alone'
}

function phaseRows (sweep: SweepResult): string[] {
  const row = (phase: string, { all, seconds }: Phase): string =>
    `| ${nameOf(sweep)}, ${phase} | ${all.p50Ms.toFixed(2)} | ${all.p99Ms.toFixed(2)} | ${all.maxMs.toFixed(1)} | ${(all.p99Ms / sweep.before.all.p99Ms).toFixed(2)} | ${seconds.toFixed(1)} |`
  return [row('before', sweep.before), row('while it sweeps', sweep.during), row('after', sweep.after)]
}

function sweepCells (sweep: SweepResult): string[] {
  const { sweptPerSecond, walPerSwept, counts, vacuum, sizes } = sweep
  const mib = (bytes: number): string => (bytes / MIB).toFixed(0)
  return [
    nameOf(sweep), sweptPerSecond.toFixed(0), walPerSwept.toFixed(0), String(counts.autovacuums), String(counts.dead),
    vacuum.seconds.toFixed(1), mib(vacuum.walBytes), mib(sizes.before.total), mib(sizes.swept.total), mib(sizes.vacuumed.total)
  ]
}

// ---------------------------------------------------------------- churn and variants

function churnSection (results: readonly ChurnResult[]): string {
  const { records, days } = results[0] as ChurnResult
  return `## Churn

A table of ${records} records that is replaced ${days} times, by the store's own statements; vacuum runs when autovacuum would.
Bloat is the largest that the table has been, over what \`vacuum full\` made of it.

| storage parameters | bloat | bytes a record at the end | rewritten | HOT updates | most dead rows | vacuums | vacuum s | WAL a record | records a second |
|---|---|---|---|---|---|---|---|---|---|
${results.map((result) => `| ${churnCells(result).join(' | ')} |`).join('\n')}
`
}

function churnCells (result: ChurnResult): string[] {
  const { parameters, bloat, atEnd, rewritten, hotShare, deadMost, vacuums, vacuumSeconds, walPerRecord, perSecond } = result
  return [
    parameters === '' ? 'as migrated' : parameters, bloat.toFixed(2), (atEnd.total / atEnd.records).toFixed(0),
    (rewritten.total / rewritten.records).toFixed(0),
    percent(hotShare), String(deadMost), String(vacuums), vacuumSeconds.toFixed(1), walPerRecord.toFixed(0), perSecond.toFixed(0)
  ]
}

function variantsSection ({ shapes, ids }: VariantsResult): string {
  return `## Other shapes of the table

SQL alone, simplified alike, batches of 32, ${shapes[0]?.records ?? 0} records.

| shape | claim p50 ms | settle p50 ms | pairs a second | WAL a record | bytes a record | HOT updates | purge s | purge WAL a record |
|---|---|---|---|---|---|---|---|---|
${shapes.map((shape) => `| ${shape.shape} | ${shape.claimP50Ms.toFixed(2)} | ${shape.settleP50Ms.toFixed(2)} | ${shape.pairsPerSecond.toFixed(0)} | ${shape.walPerRecord.toFixed(0)} | ${shape.bytesPerRecord.toFixed(0)} | ${percent(shape.hotShare)} | ${shape.purgeSeconds.toFixed(1)} | ${shape.purgeWalPerRecord.toFixed(0)} |`).join('\n')}

| id | index bytes a record | heap bytes of the id alone |
|---|---|---|
${ids.map(({ type, indexPerRecord, heapPerRecord }) => `| ${type} | ${indexPerRecord.toFixed(0)} | ${heapPerRecord.toFixed(0)} |`).join('\n')}
`
}

function percent (share: number): string { return `${Math.round(100 * share)} %` }
