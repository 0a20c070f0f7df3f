/**
 * Who looks after what deliveries left behind, by the command line: now and then during the faults, and at the end until
 * nothing waits any more. Messages that are held are asked for again, dead ones too or, at the end, discarded: their groups go on.
 */
import { spawn } from 'node:child_process'
import { MAIN, ownEnvironment } from '../gateways.ts'
import { pause } from '../stores.ts'
import { readOpen } from './audit.ts'

/** A command that finds no database gives up by itself before that. */
const COMMAND_MS_MAX = 20_000

export class Operator {
  readonly #configFile: string
  readonly #database: string
  /** Commands that were carried out. */
  commands = 0

  constructor (configFile: string, database: string) {
    this.#configFile = configFile
    this.#database = database
  }

  /** Every `everyMs`, until `isOver`. What fails under faults is tried again the next time. */
  async lookAfter (everyMs: number, isOver: Promise<void>): Promise<void> {
    let over = false
    void isOver.then(() => { over = true })
    for (let turn = 0; ; turn++) {
      await Promise.race([pause(everyMs), isOver])
      if (over) return
      await this.#say(turn % 2 === 0 ? ['retry', '--state', 'held'] : ['discard', '--state', 'dead', '--route', 'stops'])
    }
  }

  /** Everything is well again. Resolves when nothing is open, or after `mostMs`: to what still is, by route and state. */
  async untilDone (mostMs: number): Promise<ReadonlyMap<string, number>> {
    await this.#say(['retry', '--state', 'held'])
    for (const endsAt = performance.now() + mostMs; ;) {
      const open = await readOpen(this.#database)
      if (open.size === 0 || performance.now() > endsAt) return open
      // What waits behind a dead one of its group waits for somebody.
      if (Array.from(open.keys()).every((name) => name === 'stops waiting')) {
        await this.#say(['discard', '--state', 'dead', '--route', 'stops'])
      }
      await pause(LOOK_MS)
    }
  }

  async #say (words: readonly string[]): Promise<void> {
    const child = spawn(
      process.execPath,
      [
        MAIN, 'inbox', ...words, '--all', '--limit', '10000', '--who', 'operator', '--why', 'the consumer is mended',
        '--config', this.#configFile
      ],
      { stdio: 'ignore', env: ownEnvironment() }
    )
    const timer = setTimeout(() => { child.kill('SIGKILL') }, COMMAND_MS_MAX)
    const code = await new Promise<number | null>((resolve) => { child.once('exit', resolve) })
    clearTimeout(timer)
    if (code === 0) this.commands++
  }
}

const LOOK_MS = 250
