/** What the inbox's suite builds its cases from: messages, workers, fates. Waits by looking, never for a number of milliseconds. */
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Delivery, Fate, MessageDetail, NewMessage } from '../../src/core/inbox/message.ts'
import type { SwitchResult } from '../../src/core/record/scheme-switch.ts'
import { FIRST_SCHEME } from '../../src/core/record/schemes.ts'
import type { InboxStore } from '../../src/ports/inbox.ts'
import type { RecordStore } from '../../src/ports/records.ts'
import { until } from './record-world.ts'
import type { SwitchScheme } from './record-world.ts'

export interface InboxWorld {
  readonly store: InboxStore
  /** In the same database. */
  readonly records: Pick<RecordStore, 'insert' | 'take' | 'confirm' | 'look' | 'settle' | 'schemes' | 'endEarlierScheme'>
  readonly switchScheme: (...order: Parameters<SwitchScheme>) => Promise<SwitchResult>
  /** A second handle on the same database, as another process would have. Absent: the same one. */
  readonly second?: InboxStore
  /** Moves the store's clock. Absent: real time passes. */
  readonly advance?: (ms: number) => void
  /** How much of its request stands in the database: target, fields and body. */
  readonly requestBytes: (id: Buffer) => Promise<number>
  /** Oldest first. */
  readonly audits: () => Promise<ReadonlyArray<{ action: string, who: string, why: string }>>
}

export type OpenInbox = (t: TestContext) => Promise<InboxWorld>

/** Longer than any test runs. */
export const LONG_MS = 600_000
export const SHORT_MS = 60
export const ROUTE = 'webhooks'
export const EVERYTHING = { limit: 1_000 }
export const AUDIT = { who: 'ops@example.com', why: 'the consumer is mended' }

export interface MessageOver extends Partial<Omit<NewMessage, 'about' | 'request' | 'group' | 'tenant'>> {
  readonly route?: string
  /** By name. */
  readonly group?: string
  readonly tenant?: string
  readonly body?: string
  readonly keyHash?: Buffer
}

export function messageOf ({
  route = ROUTE,
  group,
  tenant,
  body = '{"event":1}',
  keyHash = randomBytes(32),
  ...over
}: MessageOver = {}): NewMessage {
  return {
    id: randomBytes(32),
    scheme: FIRST_SCHEME,
    earlierId: null,
    fingerprint: { alg: 3, value: Buffer.alloc(32, 7) },
    scopeHash: Buffer.alloc(32, 9),
    group: digestOf(group),
    tenant: digestOf(tenant),
    delayMs: 0,
    holds: false,
    stops: false,
    keepMs: LONG_MS,
    deadKeepMs: LONG_MS,
    request: {
      method: 'POST',
      target: '/hooks?from=a%20b',
      headers: ['Content-Type', 'application/json', 'X-Twice', '1', 'x-twice', 'caf\xe9'],
      body: Buffer.from(body)
    },
    about: { route, method: 'POST', path: '/hooks', requestId: 'req-1', instance: 'gateway-1', keyHash, keyText: null },
    ...over
  }
}

export function digestOf (name: string | undefined): Buffer | null {
  return name === undefined ? null : createHash('sha256').update(name).digest()
}

/** The same request with the same key, as it comes again. */
export function againOf (message: NewMessage, over: Partial<NewMessage> = {}): NewMessage {
  return { ...message, ...over }
}

export async function workerOf (store: InboxStore, leaseMs = LONG_MS): Promise<Buffer> {
  const owner = randomBytes(16)
  await store.alive(owner, leaseMs)
  return owner
}

export async function takeFrom (store: InboxStore, owner: Buffer, places = 100, route = ROUTE): Promise<Delivery[]> {
  return store.take({ routes: [{ route, places }], owner })
}

/** The one that may be taken now. */
export async function takeOne (store: InboxStore, owner: Buffer): Promise<Delivery> {
  const [delivery, ...others] = await takeFrom(store, owner)
  assert.ok(delivery !== undefined && others.length === 0, `one may be taken, not ${others.length + (delivery === undefined ? 0 : 1)}`)
  return delivery
}

/** Accepts them one after another: each is committed before the next comes. */
export async function acceptInTurn (store: InboxStore, messages: readonly NewMessage[]): Promise<void> {
  for (const message of messages) assert.deepEqual(await store.accept(message), { kind: 'accepted' })
}

export async function detailOf (store: InboxStore, { id }: Pick<NewMessage, 'id'>): Promise<MessageDetail> {
  const found = await store.look(id)
  if (found === null) throw new Error('no such message')
  return found
}

export async function stateOf (store: InboxStore, message: Pick<NewMessage, 'id'>): Promise<string> {
  return (await detailOf(store, message)).state
}

/** Lets `ms` pass on the store's clock, where it can be moved, and waits until it holds. */
export async function untilAfter ({ advance }: InboxWorld, ms: number, holds: () => Promise<boolean>, what: string): Promise<void> {
  advance?.(ms)
  await until(holds, what)
}

export function namesOf (deliveries: readonly Delivery[]): string[] {
  return deliveries.map(({ token }) => token.id.toString('hex'))
}

export function idsOf (...messages: readonly NewMessage[]): string[] {
  return messages.map(({ id }) => id.toString('hex'))
}

export const ANSWER = { status: 202, headers: ['Content-Type', 'text/plain'], body: Buffer.from('taken') }
export const DELIVERED: Extract<Fate, { kind: 'delivered' }> = { kind: 'delivered', answer: ANSWER, status: 202 }
export const DEAD = {
  kind: 'dead',
  answer: { status: 410, headers: [], body: Buffer.from('gone') },
  status: 410,
  error: 'GONE'
} as const satisfies Fate
export const HELD: Fate = { kind: 'held', error: 'ECONNRESET' }
export const againIn = (inMs: number): Fate => ({ kind: 'again', inMs, status: 503, error: 'HTTP_503' })
