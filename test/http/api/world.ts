/** The operator API on a real admin port over a real embedded store. Every answer is held against the OpenAPI document. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { load } from '../../../src/config/load.ts'
import type { Config } from '../../../src/config/config.ts'
import { hashOf, tokenLine } from '../../../src/config/operator-tokens.ts'
import { ROLES, type Role } from '../../../src/core/operator/roles.ts'
import type { FastifyInstance } from 'fastify'
import { createAdmin } from '../../../src/http/admin.ts'
import type { OperationContext } from '../../../src/operator/context.ts'
import type { GatewayReadiness } from '../../../src/operator/overview/process-view.ts'
import { commandExplaining } from '../../../src/process/explaining.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { openSqlite, type SqliteStore } from '../../../src/store/sqlite/store.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { ManualClock } from '../../harness/manual-clock.ts'

export const TOKENS: Readonly<Record<Role, string>> = {
  viewer: `ow_${'v'.repeat(43)}`,
  reader: `ow_${'r'.repeat(43)}`,
  operator: `ow_${'o'.repeat(43)}`,
  admin: `ow_${'a'.repeat(43)}`
}

const CONFIG = `version: 1
upstreams: { payments: { url: "http://127.0.0.1:9", timeout: 1s } }
routes:
  - name: charges
    match: { path: /v1/charges }
    upstream: payments
    idempotency: { scope: public }
  - name: hooks
    match: { path: /hooks }
    upstream: payments
    idempotency: { mode: inbox, scope: public }
`

export interface Answer {
  readonly status: number,
  readonly type: string,
  readonly text: string,
  readonly body: Readonly<Record<string, unknown>>,
  readonly headers: Headers
}

export interface Asked { readonly role?: Role | null, readonly body?: unknown, readonly headers?: Readonly<Record<string, string>> }

export class World {
  readonly store: SqliteStore
  readonly admin: FastifyInstance
  readonly url: string
  readonly clock: { nowMs: number }
  readonly config: Config
  readonly tokensFile: string
  /** What the gateway says of itself. */
  readiness: GatewayReadiness = { status: 'ready', degraded: [], reason: null, durability: { promise: 'strict', reasons: [], remarks: [] } }

  /** Of the process, for tokens and sessions. `clock` is the store's. */
  readonly processClock: ManualClock

  private constructor (parts: Pick<World, 'store' | 'admin' | 'url' | 'clock' | 'config' | 'tokensFile' | 'processClock'>) {
    this.store = parts.store
    this.admin = parts.admin
    this.url = parts.url
    this.clock = parts.clock
    this.config = parts.config
    this.tokensFile = parts.tokensFile
    this.processClock = parts.processClock
  }

  /**
   * `admin`: the block of the configuration, one member a line. Absent: a token for each role, named like it. `inbox`: of one more route,
   * `events`.
   */
  static async open (
    t: TestContext,
    { admin = 'auth: { tokensFile: tokens }', inbox }: { readonly admin?: string, readonly inbox?: string } = {}
  ): Promise<World> {
    const events = inbox === undefined
      ? ''
      : `  - { name: events, match: { path: /events }, upstream: payments, idempotency: { mode: inbox, scope: public, inbox: ${inbox} } }\n`
    const directory = makeDirectory('api')
    const tokens = ROLES.map((role) => tokenLine({ name: `${role}@example.com`, role, hash: hashOf(TOKENS[role]) }))
    writeFileSync(join(directory.path, 'tokens'), `${tokens.join('\n')}\n`)
    const members = ['port: 0', ...admin.split('\n')].map((line) => `  ${line}\n`)
    writeFileSync(join(directory.path, 'onceway.yaml'), `${CONFIG}${events}admin:\n${members.join('')}`)
    const { config } = load(join(directory.path, 'onceway.yaml'), { env: {} })
    const clock = { nowMs: Date.now() }
    const store = await openSqlite({ dataDir: directory.path, exclusive: true, nowMs: () => clock.nowMs })
    const processClock = new ManualClock()
    const seen: { world: World | null } = { world: null }
    const context = async (): Promise<OperationContext> => contextOf(config, store, () => seen.world?.readiness)
    const port = createAdmin({
      readiness: () => ({ phase: 'ready', degraded: [], blocked: null, durability: null }),
      mode: 'lenient',
      hosts: config.admin.hosts,
      metrics: { expose: async () => ({ contentType: 'text/plain', text: '' }) },
      log: { debug () {}, info () {}, warn () {}, error: (fields, text) => { t.diagnostic(`${text} ${JSON.stringify(fields)}`) } },
      operators: { config: () => config, clock: processClock, context }
    })
    const url = await port.listen({ host: '127.0.0.1', port: 0 })
    t.after(async () => {
      await port.close()
      await store.close()
      directory.remove()
    })
    seen.world = new World({ store, admin: port, url, clock, config, tokensFile: join(directory.path, 'tokens'), processClock })
    return seen.world
  }

  async get (path: string, asked: Asked = {}): Promise<Answer> { return this.ask('GET', path, asked) }

  async post (path: string, body: unknown, asked: Asked = {}): Promise<Answer> { return this.ask('POST', path, { ...asked, body }) }

  async ask (method: 'GET' | 'POST', path: string, { role = 'admin', body, headers = {} }: Asked): Promise<Answer> {
    const response = await fetch(`${this.url}/api/v1${path}`, {
      method,
      headers: {
        ...(role !== null && { authorization: `Bearer ${TOKENS[role]}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) })
    })
    const text = await response.text()
    const [type = ''] = (response.headers.get('content-type') ?? '').split(';')
    const answer: Answer = {
      status: response.status,
      type,
      text,
      body: /json$/.test(type) ? JSON.parse(text) as Answer['body'] : {},
      headers: response.headers
    }
    mustFit(method, path, answer)
    return answer
  }
}

function contextOf (config: Config, store: SqliteStore, readiness: () => GatewayReadiness | undefined): OperationContext {
  return {
    ...viewOf(config, readiness),
    config,
    stores: { records: store, inbox: store.inbox, operator: store.operator, locks: NO_LOCKS, secrets: () => [], aheadMs: 0 },
    signingKey: KEY,
    deleted: () => {}
  }
}

/** What a gateway would say of itself. */
export function viewOf (
  config: Config,
  readiness: () => GatewayReadiness | undefined = () => undefined
): Pick<OperationContext, 'explaining' | 'gateway'> {
  return {
    explaining: commandExplaining(config),
    gateway: {
      instance: 'gateway-1',
      version: '0.0.0',
      node: process.version,
      workers: 1,
      startedAtMs: 0,
      loadedAtMs: () => 0,
      lastReload: () => ({ atMs: 1, result: 'refused', details: ['a mistake'] }),
      readiness: async () => readiness() ?? { status: 'starting', degraded: [], reason: null, durability: null },
      recent: async () => ({
        minutes: 2,
        routes: [{ route: 'charges', outcomes: { executed: 2, replayed: 3 }, perMinute: [4, 1], p50Ms: 5, p95Ms: 10, p99Ms: null }]
      }),
      where: ['embedded SQLite']
    }
  }
}

const KEY = randomBytes(32)

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: Readonly<Record<string, Documented>> }>>>>
}
interface Documented { readonly content?: Readonly<Record<string, { readonly schema: object }>> }

export const DOCUMENT = JSON.parse(readFileSync(new URL('../../../schema/openapi.json', import.meta.url), 'utf8')) as Document
const ajv = new Ajv2020({ strict: false, formats: { 'date-time': true } })
ajv.addSchema(DOCUMENT, 'openapi')

/** What is answered is what the document says of this path and status. */
function mustFit (method: string, path: string, { status, type, body }: Answer): void {
  const template = templateOf(path)
  if (template === null) return
  const documented = DOCUMENT.paths[template]?.[method.toLowerCase()]?.responses[String(status)]
  assert.ok(documented !== undefined, `${method} ${path} answers ${status}, which the document does not know: ${JSON.stringify(body)}`)
  const content = documented.content?.[type]
  assert.ok(content !== undefined, `${method} ${path} answers ${status} as ${type}`)
  if (!/json$/.test(type)) return
  const pointer = ['paths', template, method.toLowerCase(), 'responses', String(status), 'content', type, 'schema']
    .map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
  const validate = ajv.getSchema(`openapi#/${pointer}`)
  assert.ok(validate !== undefined, pointer)
  assert.ok(validate(body), `${method} ${path} ${status}: ${JSON.stringify(validate.errors)} ${JSON.stringify(body)}`)
}

function templateOf (path: string): string | null {
  const parts = (path.split('?')[0] ?? '').split('/')
  return Object.keys(DOCUMENT.paths).filter((template) => {
    const wanted = template.split('/')
    return wanted.length === parts.length && wanted.every((part, index) => part.startsWith('{') || part === parts[index])
  }).sort((one, other) => one.split('{').length - other.split('{').length)[0] ?? null
}
