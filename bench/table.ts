/** `npm run bench:table -- bench/results/NAME.json`: puts the table of a kept result where the README's marks are. */
import { readFileSync, writeFileSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readmeTable } from './report.ts'
import type { BenchResult } from './report.ts'

const [file] = process.argv.slice(2)
if (file === undefined) throw new Error('which result? npm run bench:table -- bench/results/NAME.json')
const root = fileURLToPath(new URL('../', import.meta.url))
const page = resolve(root, 'README.md')
const readme = readFileSync(page, 'utf8')
const marks = /(<!-- bench: made by "npm run bench:table" -->\n)[\s\S]*?(<!-- \/bench -->)/
if (!marks.test(readme)) throw new Error('README.md has lost the marks between which the table goes')
const result = JSON.parse(readFileSync(resolve(file), 'utf8')) as BenchResult
writeFileSync(page, readme.replace(marks, (_, begin: string, end: string) => `${begin}${readmeTable(result, relative(root, resolve(file)).replace(/json$/, 'md'))}\n${end}`))
