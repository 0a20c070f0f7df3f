/** `onceway clock`: whether the time of the store is believed, and an operator's word that it is right. */
import type { Config } from '../config/config.ts'
import type { ClockReport } from '../core/protocol/arbiter-time.ts'
import { EARLIER_MS_MAX } from '../store/shared/time-seen.ts'
import { CONFIG_OPTIONS, configFor, onlyTaken, readOptions, sayWhat, whoAndWhy } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { confirmClock, readClock } from './open-stores.ts'
import { timeText } from './record-text.ts'
import { counted } from './table.ts'

const OPTIONS = { ...CONFIG_OPTIONS, who: { type: 'string' }, why: { type: 'string' } } as const

export const clock: Command = {
  help: `usage: onceway clock [show] [--config FILE] [--data-dir DIR]
       onceway clock confirm [--who NAME] --why TEXT [--config FILE] [--data-dir DIR]

Retentions and leases end by the clock of the database (of this machine, where the store is the embedded one). When it steps
ahead, gateways see it by their own clocks: then nothing lapses, is swept or counts as expired until the clock is set back, until
as much time has passed as anything is kept, or until somebody confirms the time. A gateway that starts does not serve from a
store whose clock is behind the last time that it has seen; confirming ends that as well.

Confirm when the clock is right now. What was written before the step then ends when its time says so: where the clock was
behind before, records of that time end early, and a retry of one is executed. Waiting costs nothing but rows.

  --who NAME       who says so (default: the user of this system)
  --why TEXT       why
  --config FILE    the gateway's file                   --data-dir DIR   where its embedded store is

examples:
  onceway clock --config onceway.yaml
  onceway clock confirm --config onceway.yaml --why 'NTP was off, the clock is right now'`,
  run: runClock
}

async function runClock (args: readonly string[], terminal: Terminal): Promise<number> {
  const options = readOptions(args, OPTIONS, 1)
  const [name = 'show'] = options.positionals
  if (name !== 'show' && name !== 'confirm') return sayWhat(name, ['show', 'confirm'])
  if (name === 'show') onlyTaken(options, [], 'clock show')
  const config = configFor(options, terminal.env)
  if (name === 'confirm') await confirm(config, whoAndWhy(options), terminal)
  else for (const line of linesOf(await readClock(config))) terminal.out(line)
  return 0
}

async function confirm (config: Config, by: { readonly who: string, readonly why: string }, { out }: Terminal): Promise<void> {
  const report = await readClock(config)
  const aheadMs = Math.max(report.aheadMs, foundMs(report))
  await confirmClock(config, by)
  out(aheadMs > 0
    ? `Confirmed: the clock of the store is no more taken to be ${spanText(aheadMs)} ahead.`
    : 'Confirmed: the clock of the store is right as it is.')
  out('Gateways that run believe it from their next sign of life on, some seconds from now.')
}

/** Signs of life come every few seconds: who has been silent for longer finds nothing any more. */
const HEARD_MS = 60_000

/** How far a gateway that lives finds it ahead, whether that holds for all or not. */
function foundMs ({ nowMs, gateways }: ClockReport): number {
  return Math.max(0, ...gateways.filter(({ seenMs }) => Math.abs(nowMs - seenMs) < HEARD_MS).map((each) => each.aheadMs))
}

function aheadText (report: ClockReport): string {
  const { nowMs, aheadMs, sinceMs, untilMs } = report
  if (aheadMs > 0) return `${spanText(aheadMs)}, found at ${timeText(sinceMs ?? nowMs)}; believed as it is from ${timeText(untilMs ?? nowMs)} on, or when it is set back or confirmed`
  const found = foundMs(report)
  return found > 0 ? `${spanText(found)}, as a gateway finds; it holds for all when none that was there before says otherwise` : 'no'
}

function behindText ({ nowMs, seenMs }: ClockReport): string[] {
  const behindMs = seenMs === null ? 0 : seenMs - nowMs
  return behindMs <= EARLIER_MS_MAX
    ? []
    : [`behind             ${spanText(behindMs)}: no gateway that starts serves until the clock is set, or confirmed`]
}

function linesOf (report: ClockReport): string[] {
  const { nowMs, seenMs, confirmed, confirmations, gateways } = report
  return [
    `store says         ${timeText(nowMs)}`,
    `ahead              ${aheadText(report)}`,
    ...behindText(report),
    `last sign of life  ${seenMs === null ? 'none' : timeText(seenMs)}`,
    ...confirmed === null
      ? []
      : [`confirmed          ${counted(confirmations, 'time')}, last at ${timeText(confirmed.atMs)} by ${confirmed.who}: ${confirmed.why}`],
    ...gateways.map((gateway) => `gateway            ${gateway.instance}  ${timeText(gateway.seenMs)}  ${gateway.aheadMs > 0 ? `finds it ${spanText(gateway.aheadMs)} ahead` : 'finds it right'}`)
  ]
}

const [SECOND_MS, MINUTE_MS, HOUR_MS, DAY_MS] = [1_000, 60_000, 3_600_000, 86_400_000]

function spanText (ms: number): string {
  if (ms >= 2 * DAY_MS) return `${Math.round(ms / DAY_MS)} days`
  if (ms >= 2 * HOUR_MS) return `${Math.round(ms / HOUR_MS)} h`
  return ms >= 2 * MINUTE_MS ? `${Math.round(ms / MINUTE_MS)} min` : `${Math.max(1, Math.round(ms / SECOND_MS))} s`
}
