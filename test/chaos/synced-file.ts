/** A file of lines, of which those that count are on the disk before anybody is told; many of them share one fsync. */
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

  /** Resolves when the line is on the disk, with all others that came in the meantime. */
  async keep (line: Line): Promise<void> {
    this.note(line)
    // One round may be under way already, and not have this line; the next one has.
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
