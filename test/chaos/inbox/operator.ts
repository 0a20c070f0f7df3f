/**
 * An operator on the command line. During the faults, now and then: held and dead messages are retried or discarded, delivered ones are
 * replayed, and inboxes are paused for some seconds. At the end: until no message waits, and nothing is paused.
 * At the end dead ones are discarded, so that their groups go on.
 */
import { spawn } from 'node:child_process'
import { MAIN, ownEnvironment } from '../gateways.ts'
import type { Random } from '../random.ts'
import { pause } from '../stores.ts'
import { readDeliveredKey, readOpen, readPaused } from './audit.ts'

export interface OperatorHabits {
  /** Between two looks after held and dead messages. */
  readonly mendsEveryMs: number
  /** null: never. Otherwise at least once, even if that is after the faults. */
  readonly replaysEveryMs: number | null
  readonly pausesEveryMs: number | null
  readonly groups: number
}

export const OPERATOR_HABITS: OperatorHabits = { mendsEveryMs: 8_000, replaysEveryMs: 4_000, pausesEveryMs: 4_000, groups: 60 }

/** Inboxes that keep delivered messages: of a route, and of one of several consumers. */
const KEPT = ['kept', 'targets::every'] as const
const PAUSED = ['ordered', 'loose', 'targets::every', 'later'] as const
const PAUSED_MS_LEAST = 2_000
const PAUSED_MS_MOST = 4_000
/** A command without a database gives up before that. */
const COMMAND_MS_MAX = 20_000

type Over = () => boolean

export class Operator {
  readonly #configFile: string
  readonly #database: string
  readonly #random: Random
  readonly #habits: OperatorHabits

  constructor (configFile: string, database: string, random: Random, habits: OperatorHabits) {
    this.#configFile = configFile
    this.#database = database
    this.#random = random
    this.#habits = habits
  }

  /** Until `isOver`. Commands that fail under faults are tried again the next time. */
  async lookAfter (isOver: Promise<void>): Promise<void> {
    const { mendsEveryMs, replaysEveryMs, pausesEveryMs } = this.#habits
    let over = false
    void isOver.then(() => { over = true })
    const every = async (ms: number | null, work: (turn: number) => Promise<boolean>, mustHappen = true): Promise<void> => {
      if (ms === null) return
      let isNeeded = mustHappen
      for (let turn = 0; ; turn++) {
        await (over ? pause(LOOK_MS) : Promise.race([pause(ms), isOver]))
        if (over && !isNeeded) return
        if (await work(turn)) isNeeded = false
      }
    }
    await Promise.all([
      every(
        mendsEveryMs,
        async (turn) => this.#change(turn % 2 === 0 ? ['retry', '--state', 'held'] : ['discard', '--state', 'dead', '--route', 'stops']),
        false
      ),
      every(replaysEveryMs, async (turn) => this.#replay(turn)),
      every(pausesEveryMs, async (turn) => this.#pause(PAUSED[turn % PAUSED.length] ?? 'loose', () => over))
    ])
  }

  /**
   * After the faults. Resolves when nothing is open or paused, or after `mostMs`, to what is still open by route and state. `sendOne`: a
   * gateway that died with the news of a message that was taken left its inbox paused, until the next message is.
   */
  async untilDone (mostMs: number, sendOne: (route: string) => Promise<void>): Promise<ReadonlyMap<string, number>> {
    await this.#change(['retry', '--state', 'held'])
    for (const endsAt = performance.now() + mostMs; ;) {
      const paused = await readPaused(this.#database)
      const open = await readOpen(this.#database)
      if ((open.size === 0 && paused.size === 0) || performance.now() > endsAt) return open
      for (const [inbox, who] of paused) {
        if (who === 'operator') await this.#say(['resume', '--route', inbox])
        else if (open.size === 0) await sendOne(inbox)
      }
      // A message behind a dead one of its group waits for an operator.
      if (Array.from(open.keys()).every((name) => name === 'stops waiting')) {
        await this.#change(['discard', '--state', 'dead', '--route', 'stops'])
      }
      await pause(LOOK_MS)
    }
  }

  /** By key, by group, and by the time of the acceptance, in turn. true: something was replayed. */
  async #replay (turn: number): Promise<boolean> {
    const inbox = this.#random.pick(KEPT)
    const words = await this.#replayWords(turn, inbox)
    return words !== null && /^[1-9]\d* of /.test(await this.#say(['replay', '--all', '--route', inbox, ...words]) ?? '')
  }

  /** null: there is nothing to name. */
  async #replayWords (turn: number, inbox: string): Promise<string[] | null> {
    switch (turn % REPLAY_WAYS) {
      case 0: return ['--from', '20s', '--to', '2s']
      case 1: return ['--group', `account-${this.#random.between(1, this.#habits.groups)}`]
      default: {
        const key = await readDeliveredKey(this.#database, inbox).catch(() => null)
        return key === null ? null : ['--key', key]
      }
    }
  }

  /** true: it was paused. */
  async #pause (inbox: string, isOver: Over): Promise<boolean> {
    if (await this.#say(['pause', '--route', inbox]) === null) return false
    await pause(this.#random.between(PAUSED_MS_LEAST, PAUSED_MS_MOST))
    while (await this.#say(['resume', '--route', inbox]) === null && !isOver()) await pause(LOOK_MS)
    return true
  }

  async #change (words: readonly string[]): Promise<boolean> {
    return await this.#say([...words, '--all', '--limit', '10000']) !== null
  }

  /** Resolves to what it printed. null: it was refused, or failed. */
  async #say (words: readonly string[]): Promise<string | null> {
    const child = spawn(
      process.execPath,
      [MAIN, 'inbox', ...words, '--who', 'operator', '--why', 'the consumer is mended', '--config', this.#configFile],
      { stdio: ['ignore', 'pipe', 'ignore'], env: ownEnvironment() }
    )
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => { said += text })
    const timer = setTimeout(() => { child.kill('SIGKILL') }, COMMAND_MS_MAX)
    const code = await new Promise<number | null>((resolve) => { child.once('close', resolve) })
    clearTimeout(timer)
    return code === 0 ? said : null
  }
}

const REPLAY_WAYS = 3
const LOOK_MS = 250
