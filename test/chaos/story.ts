/** The story of a record with a violation: line by line, with times. */
import { readFileSync } from 'node:fs'
import type { Seat } from './gateways.ts'
import type { Injected } from './injector.ts'

export interface StoryLine { readonly atMs: number, readonly text: string }

/** In the order of time, which counts from then. */
export function toldFrom (fromMs: number, lines: readonly StoryLine[]): string[] {
  return lines
    .toSorted((one, other) => one.atMs - other.atMs)
    .map(({ atMs, text }) => `${String(Math.round(atMs - fromMs)).padStart(7)} ${text}`)
}

export function faultLine ({ kind, gateway, fromMs, untilMs }: Injected): StoryLine {
  return { atMs: fromMs, text: `FAULT    ${kind} at gateway-${gateway}, for ${(untilMs ?? Date.now()) - fromMs} ms` }
}

/** What all gateways logged about it. */
export function loggedAbout (record: string, seats: readonly Seat[]): StoryLine[] {
  return seats.flatMap(({ name, log }) => readFileSync(log, 'utf8')
    .split('\n')
    .filter((line) => line.includes(record))
    .map((line) => ({ atMs: timeIn(line), text: `LOG      ${name} ${line}` })))
}

function timeIn (line: string): number {
  const { time } = JSON.parse(line) as { readonly time?: string | number }
  return time === undefined ? 0 : new Date(time).getTime()
}
