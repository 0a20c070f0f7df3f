/** docs/reference/rules.md is in step, has every rule, and answers what a reader comes with. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { rulesOf, rulesPage } from '../../scripts/rules.ts'
import { FAULT_ROWS } from './rows.ts'

const read = (name: string): string => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8')
const PAGE = read('docs/reference/rules.md')

/** From the heading of a rule to the next heading. */
function sectionOf (id: string): string {
  return PAGE.split(`\n### ${id}\n`)[1]?.split(/\n##+ /)[0] ?? ''
}

test('docs/reference/rules.md is what the protocol, the sources and the breaks say; else run npm run generate', () => {
  assert.equal(PAGE, rulesPage())
})

test('every rule of the protocol has a section, and a break that takes it out', () => {
  const ids = rulesOf(read('docs/concepts/protocol.md')).map(({ id }) => id)
  const numbered = (letter: string, count: number): string[] => Array.from({ length: count }, (_, index) => `${letter}${index + 1}`)
  const executing = ['E0', 'E1', 'E2', 'E2b', 'E3', 'E4', 'E4b', 'E5', 'E6', 'E7']
  assert.deepEqual(ids, [...numbered('P', 12), ...executing, ...numbered('I', 13), ...numbered('N', 13)])
  assert.deepEqual(ids.filter((id) => sectionOf(id) === '' || sectionOf(id).includes('\nNo break.\n')), [])
})

test('the section of E0 has the check before the first byte, its function, and the test that fails without it', () => {
  const section = sectionOf('E0')
  assert.match(section, /`\w+` in \[`src\/[^`]+`\]\([^)]+\)\n\n```ts\n[^`]*leaseEndsAtMs\n```/)
  const [file, title] = FAULT_ROWS.find(({ breaks }) => breaks === 'ignore-lease')?.test ?? ['', '']
  assert.ok(section.includes(`(\`ignore-lease\`) | [\`${file}\`](../../test/${file}): ${title}`))
})
