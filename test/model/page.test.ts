/** docs/internals/model.md maps every step of the model to files and names in the code. They must exist. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { STUCK } from './searches.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const page = readFileSync(join(ROOT, 'docs/internals/model.md'), 'utf8')
const model = readFileSync(new URL('onceway.pml', import.meta.url), 'utf8')

interface Row { readonly steps: readonly string[], readonly functions: string, readonly statements: string }

const ROWS = rows()

function rows (): Row[] {
  const section = page.split('## Every step, in the code')[1]?.split('\n## ')[0] ?? ''
  return section.split('\n').filter((line) => line.startsWith('| `')).map((line) => {
    const [, steps = '', , functions = '', statements = ''] = line.split('|')
    return { steps: namesIn(steps), functions, statements }
  })
}

function namesIn (text: string): string[] {
  return Array.from(text.matchAll(/`(\w+)`/g), ([, name]) => name as string)
}

interface Place { readonly name: string | null, readonly file: string }

/** `name` (`src/file.ts`), or a file alone. */
function placesIn (text: string): Place[] {
  return Array.from(text.matchAll(/(?:`(\w+)` )?\(`(src\/[\w./-]+)`\)/g), ([, name, file]) => ({
    name: name ?? null,
    file: file as string
  }))
}

function textOf (file: string): string {
  return readFileSync(join(ROOT, file), 'utf8')
}

test('every step of the model stands in the table, and no other', () => {
  const inModel = Array.from(
    model.matchAll(/^(?:proctype (\w+)|inline (\w+)|([a-z]\w*):)/gm),
    ([, process, inline, label]) => (process ?? inline ?? label) as string
  )
  const steps = new Set(inModel.filter((name) => !['Gateway', 'end', 'fin'].includes(name)))
  assert.deepEqual(
    Array.from(new Set(ROWS.flatMap((row) => row.steps))).filter((name) => !/^[A-Z]+$/.test(name)).sort(),
    Array.from(steps).sort()
  )
})

test('every row names a function and a statement', () => {
  const world = ROWS.filter(({ functions }) => functions.trim() === '–')
  assert.equal(world.length, 1)
  const without = ROWS.filter((row) => !world.includes(row) && (placesIn(row.functions).length === 0 || row.statements.trim() === ''))
  assert.deepEqual(without, [])
})

test('every function is there', () => {
  const places = ROWS.flatMap(({ functions }) => placesIn(functions))
  assert.deepEqual(places.filter(({ file }) => !existsSync(join(ROOT, file))), [])
  assert.deepEqual(places.filter(({ name, file }) => name === null || !isDeclared(name, textOf(file))), [])
})

function isDeclared (name: string, text: string): boolean {
  return new RegExp(
    `(?:function|const|class) #?${name}\\b|^ +(?:async )?#?${name} \\(|\\b${name}\\b.*=> \\{$|^ +${name} \\(.*\\{$`,
    'm'
  ).test(text)
}

test('every statement is there, by its name', () => {
  const places = ROWS.flatMap(({ statements }) => placesIn(statements))
  const isNamed = ({ name, file }: Place): boolean =>
    name !== null && new RegExp(`name: '${name}'|export const ${name} = \``).test(textOf(file))
  assert.deepEqual(places.filter((place) => !isNamed(place)), [])
})

test('every statement that writes a record has a step', () => {
  const directory = 'src/store/postgres'
  const files = readdirSync(join(ROOT, directory)).filter((file) => file.endsWith('.ts')).map((file) => `${directory}/${file}`)
  const writing = files.flatMap((file) => Array.from(
    textOf(file).matchAll(/name: '(\w+)',\n +writes: true/g),
    ([, name]) => name as string
  ))
  assert.ok(writing.length > 8)
  const named = ROWS.flatMap(({ statements }) => namesIn(statements))
  assert.deepEqual(writing.filter((name) => !named.includes(name)), [])
})

test('every property that is checked stands on the page', () => {
  const properties = new Set([STUCK, ...Array.from(model.matchAll(/\bassert\((\w+)/g), ([, name]) => name as string)])
  assert.deepEqual(Array.from(properties).filter((name) => !page.includes(`\`${name}\``)), [])
})
