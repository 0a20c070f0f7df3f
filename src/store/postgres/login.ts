/**
 * User and password of new connections. With a `urlFile` each new connection reads the file, so a password can be rotated while
 * gateways run: connections that exist stay as they are. While the database refuses what the file says, new connections use the login
 * that was accepted last. So the file may be written before the database knows the new password, and no connection fails meanwhile.
 */
import { unwatchFile, watchFile } from 'node:fs'
import { Client, DatabaseError } from 'pg'
import type { ClientConfig } from 'pg'
import { errorText } from '../../ports/errors.ts'
import type { Log } from '../../ports/telemetry.ts'
import { readRegularFile } from '../../regular-file.ts'
import { pinned } from './tls.ts'

export interface LoginOptions {
  readonly url: string
  /** Absent or null: the URL never changes. */
  readonly urlFile?: string | null
  readonly log?: Log
}

/** A login that was refused is tried again after this time, so that a server sees few wrong passwords. */
const REFUSED_FOR_MS = 5_000
/** The file's login, the one before, and the file's again if it was written meanwhile. */
const TRIES_MAX = 3
/** As in the configuration: a larger file is the wrong one. */
const URL_BYTES_MAX = 64 * 1024
/** No connection may be needed for an hour. Until then nobody would know that the file is of no use. */
const LOOK_EVERY_MS = 1_000

export class Login {
  /** A Client of pg that connects with the login of its moment. */
  readonly Client: typeof Client
  readonly #options: LoginOptions
  /** What the file says. Each login is a whole URL. */
  #current: string
  /** null: none, or it was refused since. */
  #accepted: string | null
  #refused: { readonly url: string, readonly atMs: number } | null = null
  /** The last one, for the log. */
  #used: string
  #logged = ''
  /** Why the file as it is cannot be used. What the database says is about another text then. */
  #wrong: string | null = null
  #secondLook: NodeJS.Timeout | undefined

  constructor (options: LoginOptions) {
    this.#options = options
    this.#current = this.#accepted = this.#used = pinned(options.url)
    this.Client = clientWith(this)
  }

  /** Calls `connect` again if the database refused the login and there is another one. */
  async retried<Result> (connect: () => Promise<Result>): Promise<Result> {
    for (let tries = 1; ; tries++) {
      try {
        return await connect()
      } catch (error) {
        const another = this.url() !== this.#refused?.url || this.#accepted !== null
        if (!isLoginRefused(error) || tries === TRIES_MAX || !another) throw error
      }
    }
  }

  /** Reads the file when it changes, too, and says at once if it cannot be used. {@link close} ends it. */
  watch (): void {
    const { urlFile } = this.#options
    if (urlFile === undefined || urlFile === null) return
    watchFile(urlFile, { interval: LOOK_EVERY_MS, persistent: false }, this.#changed)
    // A change before the first look would not be seen.
    this.#secondLook = setTimeout(this.#changed, LOOK_EVERY_MS).unref()
  }

  close (): void {
    const { urlFile } = this.#options
    clearTimeout(this.#secondLook)
    if (urlFile !== undefined && urlFile !== null) unwatchFile(urlFile, this.#changed)
  }

  readonly #changed = (): void => { this.url() }

  /** For a new connection. */
  url (): string {
    const { urlFile } = this.#options
    if (urlFile !== undefined && urlFile !== null) this.#read(urlFile)
    const isRefused = this.#refused?.url === this.#current && performance.now() - this.#refused.atMs < REFUSED_FOR_MS
    return isRefused ? this.#accepted ?? this.#current : this.#current
  }

  accepted (url: string): void {
    this.#accepted = url
    if (url !== this.#current) return
    this.#refused = null
    if (url === this.#used) return
    this.#used = url
    this.#logged = ''
    const { log, urlFile } = this.#options
    log?.info({ event: 'database-login-changed', file: urlFile }, 'new database connections use the changed login')
  }

  refused (url: string, error: Error): void {
    if (url === this.#accepted) this.#accepted = null
    if (url === this.#current || this.#accepted === null) this.#refused = { url, atMs: performance.now() }
    if (url === this.#current && this.#wrong === null) this.#warn(`the database refuses it: ${error.message}`)
  }

  /** If the file cannot be used, the login stays. */
  #read (file: string): void {
    try {
      const text = readRegularFile(file, URL_BYTES_MAX).replace(/\r?\n$/, '')
      if (text === '') throw new Error(`${file} is empty`)
      const url = pinned(text)
      if (placeOf(url) !== placeOf(this.#options.url)) {
        throw new Error('it names another server, database or parameter: only user and password can change in a running process')
      }
      this.#current = url
      if (this.#wrong === null) return
      this.#wrong = null
      this.#logged = ''
    } catch (error) {
      this.#wrong = errorText(error)
      this.#warn(this.#wrong)
    }
  }

  #warn (error: string): void {
    const { log, urlFile } = this.#options
    if (urlFile === undefined || urlFile === null || this.#logged === error) return
    this.#logged = error
    log?.warn({ event: 'database-login-unusable', file: urlFile, error }, 'the login in the file of the database URL cannot be used')
  }
}

/** The server knows neither this user with this password, nor that it may come. */
export function isLoginRefused (error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && (error.code ?? '').startsWith('28')
}

/** @throws TypeError if it is no URL */
function placeOf (text: string): string {
  const url = new URL(pinned(text))
  url.username = url.password = ''
  return url.href
}

function clientWith (login: Login): typeof Client {
  return class extends Client {
    readonly #url: string

    constructor (config: ClientConfig) {
      const url = login.url()
      super({ ...config, connectionString: url })
      this.#url = url
    }

    override connect (): Promise<this>
    override connect (callback: (error: Error) => void): void
    override connect (callback?: (error: Error) => void): Promise<this> | void {
      // In the same turn as pg calls it: the pool listens for errors from then on, and one may be in the bytes behind.
      if (callback !== undefined) {
        super.connect((error: Error) => {
          this.#ended(error)
          callback(error)
        })
        return
      }
      return super.connect().then(() => {
        this.#ended(null)
        return this
      }, (error: Error) => {
        this.#ended(error)
        throw error
      })
    }

    /** The types of pg say that there is always an error. */
    #ended (error: Error | null | undefined): void {
      if (isLoginRefused(error)) login.refused(this.#url, error)
      else if (error === null || error === undefined) login.accepted(this.#url)
    }
  }
}
