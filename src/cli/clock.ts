/** `onceway clock`: shows whether gateways trust the store's clock, and lets an operator confirm it. */
import type { Config } from '../config/config.ts'
import type { ClockReport } from '../core/protocol/arbiter-time.ts'
import { EARLIER_MS_MAX } from '../store/shared/time-seen.ts'
import { CONFIG_OPTIONS, configFor, refuseOtherOptions, readOptions, refuseSubcommand, whoAndWhy } from './command.ts'
import type { Command, Terminal } from './command.ts'
import { confirmClock, readClock } from '../process/operator-stores.ts'
import { timeText } from './record-text.ts'
import { counted } from './table.ts'

const OPTIONS = { ...CONFIG_OPTIONS, who: { type: 'string' }, why: { type: 'string' } } as const

export const clock: Command = {
  help: `usage: onceway clock [show] [--config FILE] [--data-dir DIR]
       onceway clock confirm [--who NAME] --why TEXT [--config FILE] [--data-dir DIR]

Retentions and leases end by the clock of the database (with the embedded store: of this machine). Gateways compare it with
their own clocks. If it steps ahead, nothing lapses, expires or is swept. This ends when the clock is set back, when the
longest retention has passed, or when an operator confirms the time. If the clock is behind the last time that the store has
seen, a gateway that starts does not serve until the clock is set or confirmed.

Confirm only if the clock is right now. Older records then end by it. If the clock was behind before, they end early, and a
retry of one is executed. Waiting costs only disk space.

  --who NAME       name for the audit row (default: the user of this system)
  --why TEXT       reason for the audit row
  --config FILE    the gateway's file                   --data-dir DIR   directory of its embedded store

examples:
  onceway clock --config onceway.yaml
  onceway clock confirm --config onceway.yaml --why 'NTP was off, the clock is right now'`,
  run: runClock
}

async function runClock (args: readonly string[], terminal: Terminal): Promise<number> {
  const options = readOptions(args, OPTIONS, 1)
  const [name = 'show'] = options.positionals
  if (name !== 'show' && name !== 'confirm') return refuseSubcommand(name, ['show', 'confirm'])
  if (name === 'show') refuseOtherOptions(options, [], 'clock show')
  const config = configFor(options, terminal.env)
  if (name === 'confirm') await confirm(config, whoAndWhy(options), terminal)
  else for (const line of linesOf(await readClock(config))) terminal.out(line)
  return 0
}

async function confirm (config: Config, by: { readonly who: string, readonly why: string }, { out }: Terminal): Promise<void> {
  const report = await readClock(config)
  const aheadMs = Math.max(report.aheadMs, gatewayAheadMs(report))
  await confirmClock(config, by)
  out(aheadMs > 0
    ? `Confirmed: the clock of the store no longer counts as ${spanText(aheadMs)} ahead.`
    : 'Confirmed: the clock of the store is right.')
  out('Running gateways trust it after their next heartbeat, in some seconds.')
}

/** Heartbeats come every few seconds. After this time a gateway counts as gone. */
const HEARTBEAT_MAX_AGE_MS = 60_000

/** The largest lead of the clock that a live gateway reports. It need not be agreed by all gateways yet. */
function gatewayAheadMs ({ nowMs, gateways }: ClockReport): number {
  return Math.max(0, ...gateways.filter(({ seenMs }) => Math.abs(nowMs - seenMs) < HEARTBEAT_MAX_AGE_MS).map((each) => each.aheadMs))
}

function aheadText (report: ClockReport): string {
  const { nowMs, aheadMs, sinceMs, untilMs } = report
  if (aheadMs > 0) return `${spanText(aheadMs)}, found at ${timeText(sinceMs ?? nowMs)}. It is trusted from ${timeText(untilMs ?? nowMs)} on, or when it is set back or confirmed`
  const seenAheadMs = gatewayAheadMs(report)
  return seenAheadMs > 0 ? `${spanText(seenAheadMs)}, says a gateway. It counts for all if no gateway that ran before disagrees` : 'no'
}

function behindText ({ nowMs, seenMs }: ClockReport): string[] {
  const behindMs = seenMs === null ? 0 : seenMs - nowMs
  return behindMs <= EARLIER_MS_MAX
    ? []
    : [`behind             ${spanText(behindMs)}: a gateway that starts does not serve until the clock is set or confirmed`]
}

function linesOf (report: ClockReport): string[] {
  const { nowMs, seenMs, confirmed, confirmations, gateways } = report
  return [
    `store says         ${timeText(nowMs)}`,
    `ahead              ${aheadText(report)}`,
    ...behindText(report),
    `last heartbeat     ${seenMs === null ? 'none' : timeText(seenMs)}`,
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
