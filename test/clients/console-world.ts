/** Operators in a real browser at real gateways: a shop that loses answers, the gateways before it, and pages that keep their errors. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core'
import { hashOf, tokenLine } from '../../src/config/operator-tokens.ts'
import type { Role } from '../../src/core/operator/roles.ts'
import { BUSY_MS } from '../harness/browser.ts'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { query } from '../harness/postgres.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'

/** What a file of tests has started. It ends in the other order. */
export class Ends {
  readonly #ends: Array<() => void | Promise<void>> = []

  after (end: () => void | Promise<void>): void { this.#ends.unshift(end) }

  async run (): Promise<void> {
    for (const end of this.#ends.splice(0)) await end()
  }
}

interface Person { readonly name: string, readonly role: Role }

/** The letter makes the token one of this name alone. */
export function tokenOf (name: string): string {
  return `ow_${name.charAt(0).repeat(43)}`
}

function linesOf (people: readonly Person[]): string {
  return people.map(({ name, role }) => tokenLine({ name, role, hash: hashOf(tokenOf(name)) })).join('\n')
}

/** Loses the answers of charges, and takes no webhook. */
const SHOP: Behaviour = ({ target }, response, socket, count) => {
  if (target.startsWith('/charges') || target.startsWith('/batch')) {
    socket.destroy()
    return
  }
  response.writeHead(target.startsWith('/hooks') ? 503 : 201, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify({ id: count }))
}

export const SESSION_KEY = 'a key of the sessions in this test alone'
export const WITH_TOKENS = `sessionKey: "${SESSION_KEY}", tokensFile: tokens`

const ROUTES = `
  - { name: charges, match: { path: /charges }, upstream: shop, idempotency: { scope: public } }
  - { name: batch, match: { path: /batch }, upstream: shop, idempotency: { scope: public } }
  - { name: orders, match: { path: /orders }, upstream: shop, idempotency: { scope: public } }
  - { name: hooks, match: { path: /hooks }, upstream: shop, idempotency: { mode: inbox, scope: public, inbox: { maxAttempts: 1 } } }
  - name: ordered
    match: { path: /hooks/ordered }
    upstream: shop
    idempotency: { mode: inbox, scope: public, inbox: { maxAttempts: 1, order: "json:/amount", onDead: stop-group } }`

export interface StageOptions {
  readonly people?: readonly Person[]
  readonly routes?: string
  readonly answer?: Behaviour
  /** URL of a Postgres. Absent: each gateway has an embedded store. */
  readonly database?: string
}

/** A shop, a folder for configurations and tokens, and gateways as they are needed. */
export class Stage {
  readonly shop: Witness
  readonly #directory: string
  readonly #options: StageOptions

  private constructor (shop: Witness, directory: string, options: StageOptions) {
    this.shop = shop
    this.#directory = directory
    this.#options = options
  }

  static async open (ends: Ends, options: StageOptions = {}): Promise<Stage> {
    const shop = await startWitness(options.answer ?? SHOP)
    ends.after(async () => shop.close())
    const directory = makeDirectory('console')
    ends.after(() => { directory.remove() })
    const stage = new Stage(shop, directory.path, options)
    stage.writeTokens(options.people ?? [])
    return stage
  }

  writeTokens (people: readonly Person[]): void {
    this.write('tokens', linesOf(people))
  }

  /** A file beside the configuration. Its path. */
  write (name: string, text: string): string {
    const file = join(this.#directory, name)
    writeFileSync(file, text)
    return file
  }

  /** `auth`: of admin.auth, without its braces. */
  configure (auth: string, name = 'onceway'): string {
    const { routes = ROUTES, database } = this.#options
    return this.write(`${name}.yaml`, `version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0, auth: { ${auth} } }
${database === undefined ? '' : `stores: { postgres: { url: "${database}" } }`}
upstreams: { shop: { url: "${this.shop.url}", timeout: 5s } }
routes:${routes}
`)
  }

  async start (ends: Ends, auth = WITH_TOKENS, name?: string, env: Readonly<Record<string, string>> = {}): Promise<ProcessGateway> {
    return startProcess(ends, { args: ['--config', this.configure(auth, name)], env })
  }
}

export interface Opened { readonly context: BrowserContext, readonly page: Page }

/** Where operators sit: a browser, and an address that it begins at. */
export class Desk {
  /** Errors of scripts and of the content policy, by page. */
  readonly faults: string[] = []
  readonly #browser: Browser
  readonly #url: string

  constructor (browser: Browser, url: string) {
    this.#browser = browser
    this.#url = url
  }

  async open (options: BrowserContextOptions = {}): Promise<Opened> {
    const context = await this.#browser.newContext({ baseURL: this.#url, timezoneId: 'Asia/Kathmandu', locale: 'en-GB', ...options })
    const page = await context.newPage()
    page.setDefaultTimeout(BUSY_MS)
    page.on('pageerror', (error) => { this.faults.push(`${page.url()}: ${error.message}`) })
    page.on('console', (message) => {
      if (
        message.type() === 'error' && !message.text().startsWith('Failed to load resource: the server responded')
      ) this.faults.push(`${page.url()}: ${message.text()}`)
    })
    return { context, page }
  }

  async signedIn (name: string, path: string, options: BrowserContextOptions = {}): Promise<Opened> {
    const opened = await this.open(options)
    await opened.page.goto(path)
    await signInByToken(opened.page, tokenOf(name))
    return opened
  }
}

export async function signInByToken (page: Page, token: string): Promise<void> {
  await page.getByLabel('Token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('navigation').waitFor()
}

/** What clients send to a gateway, and what a program with a token sees of it. */
export class Shopper {
  readonly #gateway: ProcessGateway
  readonly #token: string

  constructor (gateway: ProcessGateway, token: string) {
    this.#gateway = gateway
    this.#token = token
  }

  async send (key: string, path = '/charges'): Promise<Called> {
    return call(this.#gateway.url, path, {
      headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' }, body: '{"amount":100}'
    })
  }

  /** Loses the answer of a request. The record's id. */
  async lose (key: string, path = '/charges'): Promise<string> {
    const answer = await this.send(key, path)
    assert.equal(answer.headers['idempotency-status'], 'indeterminate')
    return this.idOf(key)
  }

  async idOf (key: string): Promise<string> {
    return (await this.answerOf<{ records: Array<{ id: string }> }>(`/records?key=${encodeURIComponent(key)}`)).records[0]?.id ?? ''
  }

  /** A request that was accepted, and given up at once. The message's id. */
  async messageOf (key: string): Promise<string> {
    await this.send(key, '/hooks')
    const { messages: [message] } = await this.answerOf<{ messages: Array<{ id: string }> }>(`/messages?key=${encodeURIComponent(key)}`)
    assert.ok(message, key)
    return message.id
  }

  /** Names what a filter finds now. */
  async selectionOf (what: 'records' | 'messages', filter: object): Promise<string> {
    const response = await fetch(`${this.#gateway.adminUrl}/api/v1/${what}/selections`, {
      method: 'POST',
      headers: { authorization: `Bearer ${this.#token}`, 'content-type': 'application/json' },
      body: JSON.stringify(filter)
    })
    const { token, count } = await response.json() as { token: string, count: number }
    assert.equal(count, 1)
    return token
  }

  /** Of the operator API. */
  async answerOf<Body> (path: string): Promise<Body> {
    const response = await fetch(`${this.#gateway.adminUrl}/api/v1${path}`, { headers: { authorization: `Bearer ${this.#token}` } })
    return await response.json() as Body
  }
}

/**
 * Everything that a change by an operator would change, to be compared. Without rows that somebody has deleted already: each stays
 * for two leases, and a sweep takes it whenever it comes. A deletion meanwhile is seen: it takes its row out of these.
 */
export async function storedIn (database: string): Promise<unknown> {
  const tables = await query(
    database, `select t.table_name, c.column_name from information_schema.tables t left join information_schema.columns c
       on c.table_schema = t.table_schema and c.table_name = t.table_name and c.column_name = 'expires_at'
     where t.table_schema = current_schema() and t.table_type = 'BASE TABLE'`
  )
  const ours = tables.map(({ table_name: name, column_name: ends }) => [String(name), ends !== null] as const)
    .filter(([name]) => /record|message|audit|paus|inbox/.test(name)).toSorted(([one], [other]) => one.localeCompare(other))
  assert.ok(ours.length >= 3, ours.join())
  const digest = "count(*), md5(string_agg(t::text, ' ' order by t::text))"
  const kept = "where t.expires_at is null or t.expires_at > now() + interval '1 hour'"
  const select = (name: string, ends: boolean): string => `select ${digest} from "${name}" t ${ends ? kept : ''}`
  return Promise.all(ours.map(async ([name, ends]) => [name, await query(database, select(name, ends))]))
}
