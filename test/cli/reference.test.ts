/** docs/reference/cli.md has every command and every option that there is, and no other. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { say } from './world.ts'

const ROOT = new URL('../../', import.meta.url)
const page = readFileSync(new URL('docs/reference/cli.md', ROOT), 'utf8')
const help = (await say(['--help'])).out
const commands = Array.from((help.split('commands:\n')[1]?.split('\n\n')[0] ?? '').matchAll(/^ {2}([a-z-]+)/gm), ([, name = '']) => name)

test('the page has a section for every command, and a row in its first table', () => {
  assert.ok(commands.length > 10)
  const sections = Array.from(page.matchAll(/^## ([a-z-]+)$/gm), ([, name]) => name)
  assert.deepEqual(sections, commands)
  assert.deepEqual(Array.from(page.matchAll(/^\| \[`([a-z-]+)`\]\(#/gm), ([, name]) => name), commands)
})

for (const name of commands) {
  test(`the section ${name} has the options of onceway ${name} --help`, async () => {
    const section = page.split(`\n## ${name}\n`)[1]?.split('\n## ')[0] ?? ''
    assert.deepEqual(optionsIn(section), optionsIn((await say([name, '--help'])).out))
  })
}

test('the page has every option that a command reads', () => {
  const folder = new URL('src/cli/', ROOT)
  const sources = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const read = sources.flatMap(
    (file) => Array.from(
      readFileSync(new URL(file, folder), 'utf8').matchAll(/'?([a-z-]+)'?: \{ type: '(?:string|boolean)'/g),
      ([, option = '']) => option
    )
  )
  assert.ok(read.length > 30)
  const own = optionsIn(page).filter((option) => option !== 'help' && option !== 'version')
  assert.deepEqual(own, sorted(read))
})

/** `--json` of a text, each once, by name. */
function optionsIn (text: string): string[] {
  return sorted(Array.from(text.matchAll(/(?<![\w-])--([a-z][a-z-]*[a-z])/g), ([, option = '']) => option))
}

function sorted (options: readonly string[]): string[] {
  return Array.from(new Set(options)).sort()
}
