/**
 * Plays schedules one after another and adds up what they reached. Stops at the first that is wrong, if asked to.
 */
import { scheduleOf } from './draw.ts'
import { wrongsOf } from './judge.ts'
import type { Wrong } from './judge.ts'
import { play } from './run.ts'
import type { Run } from './run.ts'
import type { Schedule } from './schedule.ts'

export interface Played { readonly schedule: Schedule, readonly run: Run, readonly wrongs: readonly Wrong[] }

/** A schedule with something wrong in it. */
export interface Failure { readonly seed: number, readonly theme: string, readonly wrongs: readonly Wrong[] }

export interface Explored {
  readonly schedules: number
  /** How many schedules reached it. */
  readonly turns: Readonly<Record<string, number>>
  readonly themes: Readonly<Record<string, number>>
  readonly events: number
  readonly failures: readonly Failure[]
}

export const NOTHING_EXPLORED: Explored = { schedules: 0, turns: {}, themes: {}, events: 0, failures: [] }

export async function playSeed (seed: number): Promise<Played> {
  const schedule = scheduleOf(seed)
  const run = await play(schedule)
  return { schedule, run, wrongs: wrongsOf(schedule, run) }
}

/** Seeds from `first` on. */
export async function explore (first: number, count: number, untilWrong: boolean): Promise<Explored> {
  const turns: Record<string, number> = {}
  const themes: Record<string, number> = {}
  const failures: Failure[] = []
  let schedules = 0
  let events = 0
  for (let seed = first; seed < first + count; seed++) {
    const { schedule: { theme }, run: { reach, history }, wrongs } = await playSeed(seed)
    schedules++
    events += history.events.length
    themes[theme] = (themes[theme] ?? 0) + 1
    for (const turn of reach.turns) turns[turn] = (turns[turn] ?? 0) + 1
    if (wrongs.length === 0) continue
    failures.push({ seed, theme, wrongs })
    if (untilWrong) break
  }
  return { schedules, turns, themes, events, failures }
}

export function together (one: Explored, other: Explored): Explored {
  return {
    schedules: one.schedules + other.schedules,
    turns: added(one.turns, other.turns),
    themes: added(one.themes, other.themes),
    events: one.events + other.events,
    failures: [...one.failures, ...other.failures]
  }
}

function added (one: Explored['turns'], other: Explored['turns']): Record<string, number> {
  const sum: Record<string, number> = { ...one }
  for (const [name, count] of Object.entries(other)) sum[name] = (sum[name] ?? 0) + count
  return sum
}
