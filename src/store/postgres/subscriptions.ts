/**
 * Wake-ups of the inbox's workers by LISTEN and NOTIFY, on one connection beside every pool. It is made with the first watch.
 * Behind a pooler that shares sessions, listening is impossible. A shared session is detected first, and then only polling
 * remains. The same holds while the connection is down.
 */
import { randomBytes } from 'node:crypto'
import { escapeIdentifier, type Client, type ClientConfig } from 'pg'
import { errorText } from '../../ports/errors.ts'
import type { Cancel } from '../../ports/clock.ts'
import type { InboxSubscriptions } from '../../ports/inbox.ts'
import type { Log, Meter } from '../../ports/telemetry.ts'
import type { Login } from './login.ts'
import { UNBALANCED } from './statements.ts'

export interface PostgresSubscriptionsOptions {
  readonly connection: Pick<ClientConfig, 'ssl' | 'application_name'>
  readonly login: Login
  /** The random id of the database's schema: two installations in one database never hear each other. */
  readonly installation: string
  readonly log: Log
  readonly meter: Pick<Meter, 'store'>
}

/** Timeout of connecting and of each statement: as long as a delivery's statements may take. */
const STATEMENT_MS_MAX = 5_000
/** Time between two checks that the connection is up and is still the same session. A silent one may be long gone. */
const CHECK_EVERY_MS = 30_000
const KEEP_ALIVE_AFTER_MS = 10_000
/**
 * Pause between two tries to connect. A restart is over soon. If a database is away for long, not every process asks it each
 * second.
 */
const RETRY_FIRST_MS = 250
const RETRY_LONGEST_MS = 15_000
/** A pooler stays where it is. This retry is for a deployment that is rebuilt under a running gateway. */
const POOLED_RETRY_MS = 600_000
/** Size of the name that tells our own notifications from the others'. */
const NAME_BYTES = 8

const BACKEND = `${UNBALANCED} select pg_catalog.pg_backend_pid() as pid`
const NOTIFY = `${UNBALANCED} select pg_catalog.pg_notify($1, $2)`

/** A pooler answers here: its number for this session differs from the server's, so the session is shared. */
class SharedSession extends Error {}

export class PostgresSubscriptions implements InboxSubscriptions {
  readonly #options: PostgresSubscriptionsOptions
  readonly #channel: string
  readonly #name = randomBytes(NAME_BYTES).toString('hex')
  readonly #watchers = new Set<{ readonly onWake: () => void }>()
  /** The one connection, as soon as it is being made. */
  #client: Client | null = null
  /** LISTEN has succeeded on this connection. */
  #listening = false
  #timer: NodeJS.Timeout | null = null
  #failures = 0
  #loggedShared = false
  /** `#wanted`: a notification must be sent. `#notifying`: one is in flight. */
  #wanted = false
  #notifying = false

  constructor (options: PostgresSubscriptionsOptions) {
    this.#options = options
    this.#channel = `onceway ${options.installation}`
  }

  /**
   * On this connection and in a transaction of its own. Notifying transactions wait for one another at their commits (a lock of
   * the whole server), and no acceptance may wait for that.
   */
  wake (): void {
    if (!this.#listening) return
    this.#wanted = true
    if (!this.#notifying && this.#client !== null) void this.#notify(this.#client)
  }

  watch (onWake: () => void): Promise<Cancel> {
    const watcher = { onWake }
    this.#watchers.add(watcher)
    if (this.#client === null && this.#timer === null) this.#connect()
    return Promise.resolve(() => {
      if (this.#watchers.delete(watcher) && this.#watchers.size === 0) void this.#end()
    })
  }

  async close (): Promise<void> {
    this.#watchers.clear()
    await this.#end()
  }

  #connect (): void {
    const { connection, login } = this.#options
    const client = new login.Client({
      ...connection,
      connectionTimeoutMillis: STATEMENT_MS_MAX,
      query_timeout: STATEMENT_MS_MAX,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS
    })
    this.#client = client
    client.on('error', (error) => { this.#lost(client, error) })
    client.on('end', () => { this.#lost(client, new Error('the connection ended')) })
    client.on('notification', ({ payload }) => { if (payload !== this.#name) this.#wakeAll() })
    void this.#begin(client)
  }

  async #begin (client: Client): Promise<void> {
    try {
      await this.#timed('message_listen', async () => {
        await client.connect()
        await mustBeOwn(client)
        // A notification that a crash loses costs one polling pause. So its commit waits for no disk and no standby.
        await client.query(`set synchronous_commit = off; listen ${escapeIdentifier(this.#channel)}`)
      })
    } catch (error) {
      return this.#lost(client, error)
    }
    if (this.#client !== client) return
    if (this.#failures > 0) this.#options.log.info({ event: 'inbox-wake-restored' }, 'the inbox is woken by the database again')
    this.#failures = 0
    this.#loggedShared = false
    this.#listening = true
    this.#later(CHECK_EVERY_MS, () => { void this.#check(client) })
    // Wake-ups before this were lost.
    this.#wakeAll()
  }

  async #check (client: Client): Promise<void> {
    try {
      await mustBeOwn(client)
      if (this.#client === client) this.#later(CHECK_EVERY_MS, () => { void this.#check(client) })
    } catch (error) {
      this.#lost(client, error)
    }
  }

  /** However many callers wake meanwhile, one more notification follows the one in flight. */
  async #notify (client: Client): Promise<void> {
    this.#notifying = true
    try {
      while (this.#wanted && this.#client === client) {
        this.#wanted = false
        await this.#timed('message_wake', () => client.query(NOTIFY, [this.#channel, this.#name]))
      }
    } catch (error) {
      this.#lost(client, error)
    } finally {
      this.#notifying = false
    }
  }

  /** Acts once for each connection, whatever the error. */
  #lost (client: Client, error: unknown): void {
    if (this.#client !== client) return
    void this.#end()
    this.#logLost(error)
    this.#failures++
    const retryMs = error instanceof SharedSession
      ? POOLED_RETRY_MS
      : Math.min(RETRY_LONGEST_MS, RETRY_FIRST_MS * 2 ** Math.min(this.#failures, DOUBLINGS_MAX))
    this.#later(retryMs, () => { this.#connect() })
  }

  #logLost (error: unknown): void {
    const { log } = this.#options
    const fields = { error: errorText(error) }
    if (!(error instanceof SharedSession)) {
      if (this.#failures === 0) {
        log.warn(
          { event: 'inbox-wake-lost', ...fields },
          'the inbox is not woken by the database until it is reached again: every process looks each second'
        )
      }
      return
    }
    if (!this.#loggedShared) {
      log.info(
        { event: 'inbox-wake-impossible', ...fields },
        'a pooler stands before the database, where nobody can listen: the inbox is not woken by it, every process looks each second'
      )
    }
    this.#loggedShared = true
  }

  async #end (): Promise<void> {
    const client = this.#client
    this.#client = null
    this.#listening = false
    this.#wanted = false
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    await client?.end().catch(() => {})
  }

  #later (ms: number, call: () => void): void {
    this.#timer = setTimeout(() => {
      this.#timer = null
      call()
    }, ms).unref()
  }

  #wakeAll (): void {
    for (const { onWake } of Array.from(this.#watchers)) onWake()
  }

  async #timed (operation: string, work: () => Promise<unknown>): Promise<void> {
    const began = performance.now()
    let ok = false
    try {
      await work()
      ok = true
    } finally {
      this.#options.meter.store('postgres', operation, ok, performance.now() - began)
    }
  }
}

/** Enough doublings to pass the longest pause, few enough for a number. */
const DOUBLINGS_MAX = 10

/** A pooler makes up the process id that it gives its clients. The server does not know this id. */
async function mustBeOwn (client: Client): Promise<void> {
  const { processID } = client as Client & { readonly processID: number | null }
  const { rows: [backend] } = await client.query<{ pid: number }>(BACKEND)
  if (backend?.pid !== processID) throw new SharedSession('this database session is shared')
}
