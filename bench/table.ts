/**
 * `npm run bench:table -- bench/results/NAME.json`: puts the table of a kept result where the README's marks are. With
 * `--inbox`, that of the inbox where those of docs/internals/performance.md are.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { readResult } from './kept.ts'
import { inboxTable, readmeTable } from './report.ts'

const { values: { inbox }, positionals: [file] } = parseArgs({
  options: { inbox: { type: 'boolean', default: false } },
  allowPositionals: true
})
if (file === undefined) throw new Error('which result? npm run bench:table -- [--inbox] bench/results/NAME.json')
const root = fileURLToPath(new URL('../', import.meta.url))
const page = resolve(root, inbox ? 'docs/internals/performance.md' : 'README.md')
const text = readFileSync(page, 'utf8')
const marks = /(<!-- bench: made by "npm run bench:table[^"]*" -->\n)[\s\S]*?(<!-- \/bench -->)/
if (!marks.test(text)) throw new Error(`${page} has lost the marks between which the table goes`)
const result = readResult(resolve(file))
const table = (inbox ? inboxTable : readmeTable)(result, relative(dirname(page), resolve(file)).replace(/json$/, 'md'))
writeFileSync(page, text.replace(marks, (_, begin: string, end: string) => `${begin}${table}\n${end}`))
