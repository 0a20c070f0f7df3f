/**
 * The operator tokens of `admin.auth.tokensFile`. The file is read again when it has changed, so that a removed token ends without a
 * reload. A file that cannot be used leaves the entries that were read last.
 */
import { timingSafeEqual } from 'node:crypto'
import { constants } from 'node:fs'
import { open } from 'node:fs/promises'
import { hashOf, parseTokens, TOKENS_FILE_BYTES_MAX } from '../config/operator-tokens.ts'
import type { TokenEntry } from '../config/operator-tokens.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/telemetry.ts'

/** A removed token works for so long at most. A burst of requests asks the file system once. */
const LOOK_EVERY_MS = 1_000
/** Enough of a hash to tell tokens apart. */
const FINGERPRINT_BYTES = 16

export interface TokensFileOptions { readonly clock: Pick<Clock, 'monotonicMs'>, readonly log: Log }

export class TokensFile {
  readonly path: string
  readonly #options: TokensFileOptions
  #entries: readonly TokenEntry[] = []
  /** What the file was when it was read: its place, size and times. */
  #version: string | null = null
  /** What is wrong with the file. Each state is logged once. */
  #wrong: string | null = null
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #looking: Promise<void> | null = null

  constructor (path: string, options: TokensFileOptions) {
    this.path = path
    this.#options = options
  }

  async entries (): Promise<readonly TokenEntry[]> {
    const nowMs = this.#options.clock.monotonicMs()
    if (this.#looking === null && nowMs - this.#lookedAtMs >= LOOK_EVERY_MS) {
      this.#lookedAtMs = nowMs
      this.#looking = this.#look().finally(() => { this.#looking = null })
    }
    await this.#looking
    return this.#entries
  }

  async #look (): Promise<void> {
    try {
      const read = await readIfChanged(this.path, this.#version)
      if (read === null) return
      this.#version = read.version
      const parsed = parseTokens(read.text)
      if ('wrong' in parsed) {
        this.#refuse(parsed.wrong)
        return
      }
      this.#entries = parsed.entries
      this.#wrong = null
      const entries = parsed.entries.length
      this.#options.log.info({ event: 'operator-tokens-read', file: this.path, entries }, 'operator tokens were read')
    } catch (error) {
      this.#version = null
      this.#refuse((error as NodeJS.ErrnoException).code ?? (error as Error).message)
    }
  }

  #refuse (wrong: string): void {
    if (wrong === this.#wrong) return
    this.#wrong = wrong
    this.#options.log.warn(
      { event: 'operator-tokens-refused', file: this.path, error: wrong, entries: this.#entries.length },
      'the file of operator tokens cannot be used; what was read before still counts'
    )
  }
}

/** null: it is the version that was read. The version is taken before the text, so a change meanwhile is found the next time. */
async function readIfChanged (path: string, known: string | null): Promise<{ readonly version: string, readonly text: string } | null> {
  // The open of a pipe would wait for its writer.
  const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  try {
    const stat = await file.stat({ bigint: true })
    if (!stat.isFile()) throw new Error('no regular file')
    const { dev, ino, size, mtimeNs, ctimeNs } = stat
    const version = [dev, ino, size, mtimeNs, ctimeNs].join(' ')
    if (version === known) return null
    if (size > TOKENS_FILE_BYTES_MAX) throw new Error('too large')
    return { version, text: await file.readFile('utf8') }
  } finally {
    await file.close()
  }
}

/** The entry of a token. Every entry is compared, and each in constant time. */
export function entryOf (token: string, entries: readonly TokenEntry[]): TokenEntry | null {
  const hash = hashOf(token)
  let found: TokenEntry | null = null
  for (const entry of entries) if (timingSafeEqual(entry.hash, hash)) found = entry
  return found
}

/** Names an entry in a session without its hash. */
export function fingerprintOf ({ hash }: TokenEntry): string {
  return hash.subarray(0, FINGERPRINT_BYTES).toString('base64url')
}
