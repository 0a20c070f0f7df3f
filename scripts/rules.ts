/**
 * docs/reference/rules.md: each rule of docs/concepts/protocol.md, the lines that keep it, and the tests that fail without them. The lines
 * are what the breaks of test/broken take out, so the page cannot name a line that no test defends.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { BREAKS } from '../test/broken/breaks.ts'
import type { Break, Patch } from '../test/broken/breaks.ts'
import { INBOX_LIES } from '../test/broken/inbox-lies.ts'
import { IDENTITY_BREAKS } from '../test/broken/identity.ts'
import { FAULT_ROWS } from '../test/broken/rows.ts'
import { HUNTS } from '../test/chaos/emphasis.ts'
import { BROKEN } from '../test/crash/broken-ports.ts'
import { CAUGHT } from '../test/simulation/caught.ts'
import { codeOf, commentsOf, parsed } from './places.ts'
import type { Code } from './places.ts'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const PROTOCOL = 'docs/concepts/protocol.md'

export interface Rule {
  readonly id: string
  readonly sentence: string
  /** Paths below test/ that the protocol names. */
  readonly heldBy: readonly string[]
  /** The protocol has a section on it. */
  readonly detailed: boolean
}

/** A break of a rule, with what it takes out and what fails then. */
interface Shown {
  readonly broken: Break
  readonly code: readonly Code[]
  readonly tests: readonly string[]
}

/** What the pairs of test/identity call their kinds, and the invariant that a build breaks if it fails on that kind. */
const PAIR_RULES: Readonly<Record<string, string>> = { caller: 'I5', request: 'I6' }

const GROUPS = [
  ['P', 'Who decides', 'protocol.md#4-who-decides'],
  ['E', 'Executing', 'protocol.md#6-executing'],
  ['I', 'Invariants of records', 'protocol.md#9-invariants'],
  ['N', 'Invariants of messages', 'protocol.md#9-invariants']
] as const

const HEAD = `# Rules

<!-- Made by "npm run generate" from docs/concepts/protocol.md, src and test/broken; do not edit. -->

Use this page to find the lines of code that keep a rule of the [protocol](../concepts/protocol.md), and the tests that fail without them.

Each line here has a *break*: a change of the source text that takes the line out or replaces it. Run a test on a build with a break, and it fails:

\`\`\`sh
ONCEWAY_BREAK=ignore-lease npx node --disable-proto=delete --import ./test/broken/register.ts --test \\
  --test-name-pattern='nothing is sent when the process was paused' test/gateway/forward/busy-pool.test.ts
\`\`\`

- Look for the ✖ of that test. Any other error proves nothing. Without \`ONCEWAY_BREAK\` the same test passes.
- The breaks are in [\`test/broken\`](../../test/broken). \`npm run test:long\` runs each named test on its broken build and demands that it fails
  ([\`broken/rows.test.ts\`](../../test/broken/rows.test.ts)). The simulation, the pairs and the crash test do the same with their own.
- *Chaos hunt*: \`npm run chaos:hunts\` finds the break in real processes. \`npm run test:long\` runs only those of
  [\`chaos/broken.test.ts\`](../../test/chaos/broken.test.ts).
- A break that breaks several rules is shown at the first of them. The other rules link to it.
- *No break* means that no test was run against a build without the rule. The protocol names the tests that cover it.
- *See also* lists the code whose comments name the rule.
`

export function rulesPage (): string {
  const rules = rulesOf(readFileSync(join(ROOT, PROTOCOL), 'utf8'))
  const shown = BREAKS.filter((broken) => rulesBroken(broken).some((id) => rules.some((rule) => rule.id === id))).map(shownOf)
  const mentions = mentionsOf(new Set(rules.map(({ id }) => id)))
  const home = new Map(shown.map(({ broken }) => [broken.name, rules.find(({ id }) => rulesBroken(broken).includes(id))?.id]))
  const sections = GROUPS.map(([letter, title, anchor]) => {
    const own = rules.filter(({ id }) => id.startsWith(letter))
    return [
      `## ${title}`,
      '',
      `From the [protocol](../concepts/${anchor}).`,
      '',
      ...own.map((rule) => sectionOf(rule, shown, home, mentions.get(rule.id) ?? []))
    ].join('\n')
  })
  return [HEAD, indexOf(rules, shown), ...sections].join('\n')
}

/** The rules in the order of the page: rows of its tables, and items of its lists of invariants. */
export function rulesOf (page: string): Rule[] {
  const lines = page.split('\n')
  return lines.flatMap((line, at): Rule[] => {
    const [, rowId, rowText = '', held = ''] = /^\| ([PE]\d+b?) \| (.+?) \| (.*) \|$/.exec(line) ?? []
    if (rowId !== undefined) {
      const heldBy = Array.from(held.matchAll(/`([^`]+)`/g), ([, path = '']) => path)
      return [{ id: rowId, sentence: fromReference(rowText), heldBy, detailed: lines.includes(`### ${rowId}`) }]
    }
    const [, itemId, itemText = ''] = /^\* \*\*([IN]\d+)\*\* (.+)$/.exec(line) ?? []
    if (itemId === undefined) return []
    const after = lines.slice(at + 1)
    const more = after.slice(0, after.findIndex((each) => !/^ +\S/.test(each)))
    return [{
      id: itemId,
      sentence: fromReference(unwrapped(itemText, more.map((each) => each.slice(2)))),
      heldBy: [],
      detailed: false
    }]
  })
}

/** A line without a bullet goes on with the line before it. A list stands by itself. */
function unwrapped (first: string, more: readonly string[]): string {
  const lines = [first]
  for (const line of more) {
    if (/^\s*\*/.test(line)) lines.push(...lines.length === 1 ? ['', line] : [line])
    else lines.push(`${lines.pop() ?? ''} ${line}`)
  }
  return lines.join('\n')
}

/** A link of a page in docs/concepts, as one of docs/reference. */
function fromReference (text: string): string {
  return text.replaceAll(/\]\((?!https?:|\.\.\/)(#?)/g, (_, hash: string) => hash === '' ? '](../concepts/' : '](../concepts/protocol.md#')
}

/** The rules that a break breaks; of a build that fails on pairs, the invariant that stands for their kind. */
function rulesBroken ({ breaks }: Break): string[] {
  return breaks.map((rule) => PAIR_RULES[rule] ?? rule)
}

function shownOf (broken: Break): Shown {
  const tests = testsOf(broken)
  if (tests.length === 0) throw new Error(`no test is run on the break "${broken.name}"`)
  return { broken, code: broken.patches.map(taken), tests }
}

function taken ({ file, find }: Patch): Code {
  return codeOf(join(ROOT, 'src', file), find)
}

function testsOf ({ name, does }: Break): string[] {
  const rows = FAULT_ROWS.filter((row) => row.breaks === name).map(({ test: [file, title] }) => testNamed(file, title))
  const caught = `a gateway that ${does} is caught`
  return [
    ...new Set(rows),
    ...CAUGHT.includes(name) ? [testNamed('simulation/broken.test.ts', caught)] : [],
    ...IDENTITY_BREAKS.some((each) => each.name === name) ? [testNamed('identity/broken.test.ts', caught)] : [],
    ...Object.hasOwn(HUNTS, name) || INBOX_LIES.some((lie) => lie === name) ? ['[chaos hunt](../../test/chaos/hunts.ts)'] : []
  ]
}

function testNamed (file: string, title: string): string {
  return `${linkToTest(file)}: ${title}`
}

function linkToTest (path: string): string {
  return `[\`${path}\`](../../test/${path.replace(/\/$/, '')})`
}

function indexOf (rules: readonly Rule[], shown: readonly Shown[]): string {
  const rows = rules.map(({ id, sentence }) => {
    const breaks = shown.filter(({ broken }) => rulesBroken(broken).includes(id)).length
    return cells([`[${id}](#${id.toLowerCase()})`, sentence.split('\n')[0] ?? '', breaks === 0 ? 'no break' : String(breaks)])
  })
  return ['| rule | says | breaks |', '|---|---|---|', ...rows, ''].join('\n')
}

function sectionOf (
  { id, sentence, heldBy, detailed }: Rule,
  shown: readonly Shown[],
  home: ReadonlyMap<string, string | undefined>,
  mentions: readonly string[]
): string {
  const breaking = shown.filter(({ broken }) => rulesBroken(broken).includes(id))
  const own = grouped(breaking.filter(({ broken }) => home.get(broken.name) === id))
  const elsewhere = breaking.filter(({ broken }) => home.get(broken.name) !== id)
  const ports = BROKEN.filter(({ breaks }) => breaks.some((rule) => rule === id))
  const named = new Set(own.flat().flatMap(({ tests }) => tests).map((test) => test.split(':')[0]))
  const more = heldBy.map(linkToTest).filter((link) => !named.has(link))
  return [
    `### ${id}`,
    '',
    `${sentence}${detailed ? ` ([details](../concepts/protocol.md#${id.toLowerCase()}))` : ''}`,
    '',
    ...breaking.length === 0 ? ['No break.', ''] : [],
    ...own.flatMap(groupText),
    ...elsewhere.length === 0
      ? []
      : [
          'Also broken by:',
          '',
          ...elsewhere.map(({ broken: { name }, code }) => {
            return `- [\`${name}\`](#${name}) (${home.get(name)}): ${placesOf(code).join(' and ')}`
          }),
          ''
        ],
    ...ports.length === 0
      ? []
      : [
          'The crash test catches the rule broken by a port:',
          '',
          ...ports.map(({ name, breaks }) => `- ${testNamed('crash/broken.test.ts', `the checker catches ${name}: ${breaks.join(', ')}`)}`),
          ''
        ],
    ...more.length === 0 ? [] : [`More tests: ${more.join(' · ')}`, ''],
    ...mentions.length === 0 ? [] : [`See also: ${mentions.join(' · ')}`, '']
  ].join('\n')
}

/** Breaks of the same lines together; where most breaks are comes first. */
function grouped (breaks: readonly Shown[]): Shown[][] {
  const groups = Map.groupBy(breaks, ({ code }) => JSON.stringify(code))
  return Array.from(groups.values()).sort((a, b) => b.length - a.length)
}

function groupText (group: readonly Shown[]): string[] {
  const code = group[0]?.code ?? []
  const byPlace = Array.from(
    Map.groupBy(code, placeOf),
    ([place, parts]) => [place, '', '```ts', parts.map(({ text }) => text).join('\n// …\n'), '```', ''].join('\n')
  )
  const rows = group.map(({ broken: { name, does }, tests }) => cells([`<a id="${name}"></a>${does} (\`${name}\`)`, tests.join('<br>')]))
  return [...byPlace, '| without it, a gateway | these tests fail |', '|---|---|', ...rows, '']
}

function placesOf (code: readonly Code[]): string[] {
  return Array.from(new Set(code.map(placeOf)))
}

function placeOf ({ file, name }: Pick<Code, 'file' | 'name'>): string {
  const path = file.slice(ROOT.length)
  const link = `[\`${path}\`](../../${path})`
  return name === null ? link : `\`${name}\` in ${link}`
}

function cells (texts: readonly string[]): string {
  return `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`
}

const RULE = /\b[PEIN]\d+b?\b/

/** Of each rule, the code whose comments name it. */
function mentionsOf (ids: ReadonlySet<string>): ReadonlyMap<string, string[]> {
  const found = new Map<string, Set<string>>()
  const files = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).sort()
  for (const file of files.map((name) => join(ROOT, 'src', name))) {
    if (!RULE.test(readFileSync(file, 'utf8'))) continue
    for (const { name, text } of commentsOf(parsed(file))) {
      for (const [id] of text.matchAll(new RegExp(RULE, 'g'))) {
        if (ids.has(id)) found.set(id, (found.get(id) ?? new Set()).add(placeOf({ file, name })))
      }
    }
  }
  return new Map(Array.from(found, ([id, places]) => [id, Array.from(places)]))
}
