/**
 * An operator on the command line: now and then during the faults, and at the end until no message waits.
 * Held and dead messages are retried. At the end dead ones are discarded, so that their groups go on.
 */
import { spawn } from 'node:child_process'
import { MAIN, ownEnvironment } from '../gateways.ts'
import { pause } from '../stores.ts'
import { readOpen } from './audit.ts'

/** A command without a database gives up before that. */
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

  /** Runs every `everyMs`, until `isOver`. Commands that fail under faults are tried again the next time. */
  async lookAfter (everyMs: number, isOver: Promise<void>): Promise<void> {
    let over = false
    void isOver.then(() => { over = true })
    for (let turn = 0; ; turn++) {
      await Promise.race([pause(everyMs), isOver])
      if (over) return
      await this.#say(turn % 2 === 0 ? ['retry', '--state', 'held'] : ['discard', '--state', 'dead', '--route', 'stops'])
    }
  }

  /** After the faults. Resolves when nothing is open, or after `mostMs`, to what is still open by route and state. */
  async untilDone (mostMs: number): Promise<ReadonlyMap<string, number>> {
    await this.#say(['retry', '--state', 'held'])
    for (const endsAt = performance.now() + mostMs; ;) {
      const open = await readOpen(this.#database)
      if (open.size === 0 || performance.now() > endsAt) return open
      // A message behind a dead one of its group waits for an operator.
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
