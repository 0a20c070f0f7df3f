/**
 * `npm run examples -- NAME… --mode forward|inbox --full --size N --seed N --report FILE`: runs examples and judges them. Without a name it
 * runs all. Without a mode it runs all modes. Exit 1 if a message was lost or executed twice.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { EXAMPLES, play } from './example.ts'
import type { ExampleName, Played } from './example.ts'
import { isRight } from './judge.ts'
import { MODES } from './receiver.ts'
import type { Mode } from './receiver.ts'
import { printed, reported } from './report.ts'

const FULL_SIZE = 10_000
/** `npm run test:long` plays this size too. A smaller run kills too few processes to show anything. */
const SMALL_SIZE = FULL_SIZE / 10

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    mode: { type: 'string' },
    full: { type: 'boolean', default: false },
    size: { type: 'string' },
    seed: { type: 'string', default: '1' },
    report: { type: 'string' }
  }
})

function wholeNumber (name: string, text: string, least: number): number {
  const number = Number(text)
  if (!Number.isInteger(number) || number < least) throw new RangeError(`--${name} wants a whole number from ${least} on`)
  return number
}

function named (name: string): ExampleName {
  if (!Object.hasOwn(EXAMPLES, name)) throw new RangeError(`there is no example ${name}; there are ${Object.keys(EXAMPLES).join(', ')}`)
  return name as ExampleName
}

function modes (name: string | undefined): readonly Mode[] {
  const chosen = MODES.filter((mode) => name === undefined || mode === name)
  if (chosen.length === 0) throw new RangeError(`there is no mode ${name}; there are ${MODES.join(', ')}`)
  return chosen
}

const size = wholeNumber('size', values.size ?? String(values.full ? FULL_SIZE : SMALL_SIZE), SMALL_SIZE)
const sizes = Object.fromEntries(modes(values.mode).map((mode) => [mode, size]))
const seed = wholeNumber('seed', values.seed, 0)
const names = (positionals.length === 0 ? Object.keys(EXAMPLES) : positionals).map(named)
const played: Played[] = []
for (const name of names) {
  for await (const one of play(name, { sizes, seed })) {
    console.log(printed(one))
    played.push(one)
  }
}
if (values.report !== undefined) writeFileSync(values.report, reported(played, { args: process.argv.slice(2), seed }))
process.exitCode = played.every(isRight) ? 0 : 1
