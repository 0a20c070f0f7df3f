/** A file of lines. Durable lines are on the disk before their promise resolves. Many share one fsync. */
import { closeSync, fdatasync, openSync, write } from 'node:fs'
import { promisify } from 'node:util'

const writeFully = promisify(write)
const sync = promisify(fdatasync)

export class SyncedFile<Line> {
  readonly #handle: number
  #lines: string[] = []
  #synced: Promise<void> | null = null

  constructor (file: string) {
    this.#handle = openSync(file, 'a')
  }

  /** Resolves when the line is on the disk, together with all lines that came meanwhile. */
  async keep (line: Line): Promise<void> {
    this.note(line)
    // A running round may not have this line. The next one has it.
    if (this.#synced !== null) await this.#synced
    this.#synced ??= this.flush().finally(() => { this.#synced = null })
    await this.#synced
  }

  /** Written with the next lines. */
  note (line: Line): void {
    this.#lines.push(`${JSON.stringify(line)}\n`)
  }

  async flush (): Promise<void> {
    const batch = this.#lines
    this.#lines = []
    if (batch.length === 0) return
    await writeFully(this.#handle, batch.join(''))
    await sync(this.#handle)
  }

  close (): void {
    closeSync(this.#handle)
  }
}
