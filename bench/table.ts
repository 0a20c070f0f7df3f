/**
 * `npm run bench:table -- bench/results/NAME.json`: puts the table of a kept result where the README's marks are. With `--inbox` or
 * `--targets`, that of the inbox or of the targets where the marks of that table in docs/internals/performance.md are.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { readResult } from './kept.ts'
import { inboxTable, readmeTable } from './report.ts'
import { targetsTable } from './targets.ts'

const { values: { inbox, targets }, positionals: [file] } = parseArgs({
  options: { inbox: { type: 'boolean', default: false }, targets: { type: 'boolean', default: false } },
  allowPositionals: true
})
if (file === undefined || (inbox && targets)) throw new Error('which? npm run bench:table -- [--inbox | --targets] bench/results/NAME.json')
const root = fileURLToPath(new URL('../', import.meta.url))
const option = inbox ? ' -- --inbox' : targets ? ' -- --targets' : ''
const page = resolve(root, option === '' ? 'README.md' : 'docs/internals/performance.md')
const text = readFileSync(page, 'utf8')
const tableOf = inbox ? inboxTable : targets ? targetsTable : readmeTable
const marks = new RegExp(`(<!-- bench: made by "npm run bench:table${option}" -->\\n)[\\s\\S]*?(<!-- /bench -->)`)
if (!marks.test(text)) throw new Error(`${page} has lost the marks between which the table goes`)
const result = readResult(resolve(file))
const table = tableOf(result, relative(dirname(page), resolve(file)).replace(/json$/, 'md'))
writeFileSync(page, text.replace(marks, (_, begin: string, end: string) => `${begin}${table}\n${end}`))
