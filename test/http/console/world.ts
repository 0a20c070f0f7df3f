/** A real admin server with the console over an embedded store, filled with records and messages, and a browser for each role. */
import type { TestContext } from 'node:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from '../../../src/config/load.ts'
import { hashOf, tokenLine } from '../../../src/config/operator-tokens.ts'
import { ROLES } from '../../../src/core/operator/roles.ts'
import type { Role } from '../../../src/core/operator/roles.ts'
import { encodeHeaders } from '../../../src/core/protocol/codec.ts'
import type { Fate } from '../../../src/core/inbox/message.ts'
import type { About } from '../../../src/core/record/record.ts'
import { createAdmin } from '../../../src/http/admin.ts'
import type { OperationContext } from '../../../src/operator/context.ts'
import { viewOf } from '../api/world.ts'
import type { LogFields } from '../../../src/ports/telemetry.ts'
import { NO_LOCKS } from '../../../src/store/shared/no-locks.ts'
import { openSqlite } from '../../../src/store/sqlite/store.ts'
import type { SqliteStore } from '../../../src/store/sqlite/store.ts'
import { createMetrics } from '../../../src/telemetry/metrics.ts'
import { DEAD, DELIVERED, HELD, messageOf, takeFrom, workerOf } from '../../conformance/inbox-world.ts'
import { claimOf, settlementOf, tokenOf } from '../../conformance/record-world.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { ManualClock } from '../../harness/manual-clock.ts'
import { Browser } from '../sign-in/world.ts'
import type { Answer, Asked } from '../sign-in/world.ts'

export const TOKENS = Object.fromEntries(
  ROLES.map((role, at) => [role, `ow_${'abcd'.charAt(at).repeat(43)}`])
) as Readonly<Record<Role, string>>
export const TOKEN_LINES = ROLES.map((role) => tokenLine({ name: `an-${role}`, role, hash: hashOf(TOKENS[role]) })).join('\n')
export const WITH_TOKENS = 'auth: { sessionKey: "the key of all sessions in this test", tokensFile: tokens }'
export const ROUTES = `
  - { name: charges, match: { path: /v1/*, methods: [POST] }, upstream: a, idempotency: { scope: public } }
  - { name: webhooks, match: { path: /hooks, methods: [POST] }, upstream: a, idempotency: { scope: public, mode: inbox } }`

export interface Console {
  readonly url: string
  readonly store: SqliteStore
  readonly logged: Array<LogFields & { readonly message: string }>
  readonly advance: (ms: number) => void
  /** Makes the store unreachable for the console. */
  breaks: Error | null
  /** A browser in which this role is signed in. */
  readonly as: (role: Role) => Promise<Visitor>
}

export class Visitor {
  readonly browser = new Browser()
  readonly #url: string

  constructor (url: string) {
    this.#url = url
  }

  async get (path: string, asked: Asked = {}): Promise<Answer> {
    return this.browser.ask(this.#url + path, asked)
  }

  /** Sends the form of a page as a browser does: its hidden fields, and those that are given. */
  async submit (page: Answer, action: string, fields: Readonly<Record<string, string>>): Promise<Answer> {
    return this.get(action, { method: 'POST', form: { ...hiddenFields(page.body, action), ...fields } })
  }
}

/** Of the form that leads to `action`. */
export function hiddenFields (body: string, action: string): Record<string, string> {
  const form = body.split('<form ').find((part) => part.slice(0, part.indexOf('>')).includes(`action="${action.replaceAll('&', '&amp;')}"`))
  if (form === undefined) throw new Error(`no form leads to ${action} in ${body}`)
  const inputs = form.slice(0, form.indexOf('</form>')).matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)"/g)
  return Object.fromEntries(Array.from(inputs, ([, name = '', value = '']) => [name, unescaped(value)]))
}

export function unescaped (text: string): string {
  return text.replaceAll('&quot;', '"').replaceAll('&#39;', "'").replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')
}

export async function startConsole (t: TestContext, { admin = WITH_TOKENS, routes = ROUTES } = {}): Promise<Console> {
  const directory = makeDirectory('console')
  writeFileSync(join(directory.path, 'tokens'), TOKEN_LINES)
  const file = join(directory.path, 'onceway.yaml')
  writeFileSync(file, `version: 1\nadmin: { ${admin} }\nupstreams: { a: { url: "http://127.0.0.1:1" } }\nroutes:${routes}\n`)
  const { config } = load(file, { env: {} })
  const time = { offMs: 0 }
  const store = await openSqlite({ dataDir: join(directory.path, 'store'), exclusive: true, nowMs: () => Date.now() + time.offMs })
  const logged: Console['logged'] = []
  const log = (fields: LogFields, message: string): void => { logged.push({ ...fields, message }) }
  const context: OperationContext = {
    ...viewOf(config),
    config,
    stores: { records: store, inbox: store.inbox, operator: store.operator, locks: NO_LOCKS, secrets: () => [], aheadMs: 0 },
    signingKey: Buffer.alloc(32, 1),
    deleted: () => {}
  }
  const world: Pick<Console, 'breaks'> = { breaks: null }
  const server = createAdmin({
    readiness: () => ({ phase: 'ready', degraded: [], blocked: null, durability: null }),
    mode: 'lenient',
    hosts: [],
    metrics: createMetrics({ processMetrics: false }),
    log: { debug: log, info: log, warn: log, error: log },
    operators: {
      config: () => config,
      clock: new ManualClock(),
      context: async () => {
        if (world.breaks !== null) throw world.breaks
        return context
      }
    }
  })
  const url = await server.listen({ host: '127.0.0.1', port: 0 })
  t.after(async () => {
    await server.close()
    await store.close()
    directory.remove()
  })
  const as = async (role: Role): Promise<Visitor> => {
    const visitor = new Visitor(url)
    await visitor.get('/sign-in', { method: 'POST', form: { token: TOKENS[role], next: '/' } })
    return visitor
  }
  return Object.assign(world, { url, store, logged, as, advance: (ms: number) => { time.offMs += ms } })
}

export interface RecordOver {
  readonly about?: Partial<About>
  readonly quarantineMs?: number
  readonly question?: Buffer | null
  readonly headers?: readonly string[]
  readonly body?: Buffer
  readonly code?: string
}

const DAY_MS = 86_400_000

/** A record in this state. Its id as the console shows it. */
export async function recordIn (
  { store }: Pick<Console, 'store'>,
  state: 'claimed' | 'completed' | 'consumed' | 'released' | 'indeterminate',
  {
    about = {},
    quarantineMs = 0,
    question = null,
    headers = ['Content-Type', 'application/json'],
    body = Buffer.from('{"id":1}'),
    code = 'UPSTREAM_TIMEOUT'
  }: RecordOver = {}
): Promise<string> {
  const plain = claimOf()
  const claim = claimOf({ id: plain.id, quarantineMs, question, unknownKeepMs: DAY_MS, about: { ...plain.about, ...about } })
  await store.insert(claim)
  if (state !== 'claimed') {
    const answered = state === 'completed'
      ? { status: 201, headers: encodeHeaders([...headers]), body }
      : { headers: null, body: null, status: state === 'consumed' ? 201 : null }
    await store.settle(
      settlementOf(
        tokenOf(claim), state, { keepMs: DAY_MS, ...answered, reason: state === 'indeterminate' ? { stage: 'during', code } : null }
      )
    )
  }
  return claim.id.toString('base64url')
}

/** A message in this state. Those that waited before are in delivery afterwards, unless this one waits too. */
export async function messageIn (
  { store: { inbox } }: { readonly store: Pick<SqliteStore, 'inbox'> },
  state: 'waiting' | 'delivered' | 'held' | 'dead',
  { about = {}, fate }: { readonly about?: Partial<About>, readonly fate?: Fate } = {}
): Promise<string> {
  const plain = messageOf()
  const message = { ...plain, holds: true, about: { ...plain.about, ...about } }
  await inbox.accept(message)
  if (state !== 'waiting') {
    const taken = await takeFrom(inbox, await workerOf(inbox), 1_000, message.about.route)
    const delivery = taken.find(({ token }) => token.id.equals(message.id))
    if (delivery === undefined) throw new Error('it was not taken')
    await inbox.settle(delivery.token, fate ?? { delivered: DELIVERED, held: HELD, dead: DEAD }[state])
  }
  return message.id.toString('base64url')
}
