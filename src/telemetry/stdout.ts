/**
 * stdout, as the log writes to it. What waits is bounded. A reader that stands still or has gone, and a disk that is full, stop no process.
 * It uses sonic-boom 5 itself: that of pino 10 retries each error for ever in the last write of a process.
 */
import { writeSync } from 'node:fs'
import sonic from 'sonic-boom'
import { WRITE_WITHIN_MS } from './line-buffer.ts'
import type { Buffered } from './line-buffer.ts'

/** Bytes of lines that wait for a reader who stands still: some ten thousand requests. What comes then is left out, and counted. */
const WAITING_BYTES_MAX = 16 * 1024 * 1024
/** For the last lines of a process whose reader stands still. Nothing else runs meanwhile, not even a second signal. */
const LAST_LINES_WITHIN_MS = 500
const STDERR = 2

export interface WriteSizes {
  /** Bytes that one write collects. */
  readonly minLength: number
  /** Bytes that one write takes at most. Absent: the library's own limit. */
  readonly maxWrite?: number
}

export class Stdout implements Buffered {
  /** It is read again, and so many lines have been left out. */
  onDropped: (lines: number) => void = () => {}
  readonly #stream: InstanceType<typeof sonic.SonicBoom>
  /** Monotonic. From then on a pipe that is full is not waited for. */
  #waitsUntilMs = Infinity
  #failed = false
  #gone = false
  #dropped = 0

  constructor (sizes: WriteSizes) {
    this.#stream = new sonic.SonicBoom({
      // To ask for it makes a pipe non-blocking. A write that blocks could not be bounded.
      fd: process.stdout.fd,
      sync: false,
      periodicFlush: WRITE_WITHIN_MS,
      maxLength: WAITING_BYTES_MAX,
      retryEAGAIN: () => performance.now() < this.#waitsUntilMs,
      ...sizes
    })
    this.#stream.on('error', (error: NodeJS.ErrnoException) => { this.#fail(error) })
    this.#stream.on('drop', (text: string) => { this.#dropped += text.split('\n').length - 1 })
    this.#stream.on('drain', () => {
      this.#failed = false
      if (this.#dropped === 0) return
      const lines = this.#dropped
      this.#dropped = 0
      this.onDropped(lines)
    })
  }

  write (text: string): void {
    if (!this.#gone) this.#stream.write(text)
  }

  flush (done: (() => void) | null): void {
    if (this.#gone) done?.()
    else if (done === null) this.#stream.flush()
    else this.#stream.flush(() => { done() })
  }

  /** For the end of the process. */
  flushLast (): void {
    if (this.#gone) return
    this.#waitsUntilMs = performance.now() + LAST_LINES_WITHIN_MS
    try {
      this.#stream.flushSync()
    } catch {
      // Nobody reads it, so nobody can be told.
    }
  }

  /** A pipe whose reader has gone never has another one. Anything else may pass: the next flush tries again. */
  #fail ({ code = 'unknown error' }: NodeJS.ErrnoException): void {
    if (code === 'EPIPE') {
      this.#gone = true
      this.#stream.destroy()
    } else if (!this.#failed) {
      this.#failed = true
      tell(`onceway: stdout cannot be written (${code}). Requests are served. Lines of the log wait, up to 16 MiB, and later ones are left out.\n`)
    }
  }
}

/** On what may be the same full disk. */
function tell (text: string): void {
  try {
    writeSync(STDERR, text)
  } catch {}
}
