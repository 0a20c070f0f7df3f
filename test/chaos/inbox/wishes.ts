/**
 * What a sender wants, and its form on the wire: one request, which is one message, or several (if it is split, or has several consumers).
 * Has the expected id of each message, and the expected bytes at the consumer.
 */
import { createHash } from 'node:crypto'
import { recordId } from '../../../src/core/record/record-id.ts'
import { pairs } from '../../../src/core/headers/lines.ts'
import type { RawHeaders } from '../../../src/core/record/record.ts'
import { scopeOf } from '../../../src/core/scope/scope.ts'
import { callerWith, SECOND_RULES } from '../../harness/caller.ts'
import { targetMessageId } from '../../../src/core/inbox/targets.ts'
import { inboxNamed } from './routes.ts'
import type { InboxRoute, Topic } from './routes.ts'

/** One message, as it must be. */
export interface Part {
  /** Its id, as it stands in `Onceway-Key`. */
  readonly record: string
  readonly key: string
  /** Unique over all routes. null: in no order. */
  readonly group: string | null
  readonly print: string
  /** The name of its inbox. */
  readonly inbox: string
}

export interface Wish {
  readonly route: InboxRoute
  readonly method: string
  readonly target: string
  readonly fields: RawHeaders
  readonly body: string
  readonly parts: readonly Part[]
  /** The ids that its 202 names. */
  readonly told: readonly string[]
  /** Ids of messages for consumers that do not take it. */
  readonly untaken: readonly string[]
  readonly due: Due | null
}

/** When a message is due, as its sender says it: a time, or a delay. */
export type Due = { readonly kind: 'at', readonly ms: number } | { readonly kind: 'in', readonly ms: number }

/** What a consumer does with a message at every delivery: `gone` 410, `refused` always 422, `later` twice 503 first. */
export type Poison = 'gone' | 'refused' | 'later'

export interface Item { readonly key: string, readonly group: string | null, readonly amount: number }

export interface Draft {
  readonly route: InboxRoute
  /** Several if the route splits batches, else one. */
  readonly items: readonly [Item, ...Item[]]
  readonly scope: string
  readonly poison: Poison | null
  /** null: at once. */
  readonly due: Due | null
  /** On a route with several consumers. */
  readonly topic: Topic | null
  /** Another caller's request under the same key. */
  readonly isOther: boolean
}

export function wishOf (draft: Draft): Wish {
  const { route, items, scope, isOther, due } = draft
  const [first] = items
  const texts = items.map((item) => textOf(item, draft))
  const method = first.amount % 3 === 0 ? 'PATCH' : 'POST'
  const target = `/${route.name}/things${isOther && !route.comparesBody ? '?other' : first.amount % 5 === 0 ? '?a=%2F&a=b' : ''}`
  const body = route.batch ? `[${texts.join(' , ')}]` : `${texts[0] ?? ''}${isOther && route.comparesBody ? ' ' : ''}`
  const fields = fieldsOf(draft, route.batch ? 'application/cloudevents+json' : 'application/json')
  const printAt = (path: string, sent: RawHeaders, text: string): string =>
    printOf(method, path, sent, createHash('sha256').update(text).digest('base64url'))
  const parts = items.map(({ key, group }, index): Part => ({
    record: recordOf(route.name, scope, key),
    key: `${route.name} ${scope} ${key}`,
    group: group === null || route.order === null ? null : `${route.name} ${group}`,
    print: printAt(target, fields, route.batch ? texts[index] ?? '' : body),
    inbox: route.name
  }))
  const type = route.batch ? 'application/cloudevents-batch+json' : 'application/json'
  const asked = { route, method, target, body, due, fields: fieldsOf(draft, type) }
  const [part] = parts
  if (route.targets.length === 0 || part === undefined) return { ...asked, parts, told: parts.map(({ record }) => record), untaken: [] }
  return { ...asked, ...forTargets(draft, part, (path) => printAt(path ?? target, withoutCredential(fields), body)), told: [part.record] }
}

/** The first one that takes the request has its id. `printAt`: at the consumer, by the path of the target. */
function forTargets (
  { route, items: [{ group }], topic }: Draft,
  { record, key }: Part,
  printAt: (path: string | null) => string
): Pick<Wish, 'parts' | 'untaken'> {
  const idFor = (target: string): string => targetMessageId(Buffer.from(record, 'base64url'), target).toString('base64url')
  const takers = route.targets.filter(({ topics }) => topics === null || (topic !== null && topics.includes(topic)))
  const parts = takers.map((target, index): Part => ({
    record: index === 0 ? record : idFor(target.name),
    key: `${key} for ${target.name}`,
    group: group === null || !target.isOrdered ? null : `${inboxNamed(route, target)} ${group}`,
    print: printAt(target.path),
    inbox: inboxNamed(route, target)
  }))
  const known = new Set(parts.map((part) => part.record))
  return { parts, untaken: route.targets.map(({ name }) => idFor(name)).filter((id) => !known.has(id)) }
}

function textOf ({ key, group, amount }: Item, { topic, due }: Draft): string {
  return JSON.stringify({
    id: key,
    group,
    amount,
    text: 'naïve \u{1F4B6}',
    ...topic !== null && { topic },
    ...due?.kind === 'in' && { delay: `${due.ms}ms` }
  })
}

function fieldsOf ({ route, items: [first], scope, poison, due }: Draft, type: string): string[] {
  return [
    'Content-Type', type,
    'Authorization', scope,
    ...route.keyIn === 'header' ? ['Idempotency-Key', first.key] : [],
    ...route.order === 'header' && first.group !== null ? ['X-Group', first.group] : [],
    'X-Trail', 'one', 'X-Trail', ' two,  three',
    ...due?.kind === 'at' ? ['X-Due', new Date(due.ms).toISOString()] : [],
    ...poison === null ? [] : ['X-Poison', poison]
  ]
}

/** No target gets it. */
function withoutCredential (fields: RawHeaders): string[] {
  return Array.from(pairs(fields)).filter(([name]) => name !== 'Authorization').flat()
}

function recordOf (route: string, scope: string, key: string): string {
  const found = scopeOf(
    callerWith(['Authorization', scope]),
    { kind: 'credential', anonymous: false, cookies: 'refuse' },
    null,
    SECOND_RULES
  )
  if (found.kind !== 'scope') throw new Error(found.detail)
  return recordId(route, found.scope, key).toString('base64url')
}

/** The sender's own. The rest is the gateway's and the connection's. `prefer`: what asks for the inbox is for the gateway. */
const THEIRS: ReadonlySet<string> = new Set([
  'content-type', 'authorization', 'idempotency-key', 'x-group', 'x-trail', 'x-due', 'x-poison', 'prefer'
])

/** `body`: its SHA-256. */
export function printOf (method: string, target: string, rawHeaders: RawHeaders, body: string): string {
  const own = Array.from(pairs(rawHeaders), ([name, value]) => [name.toLowerCase(), value.trim()]).filter(([name = '']) => THEIRS.has(name))
  return createHash('sha256').update(JSON.stringify([method, target, own, body])).digest('base64url').slice(0, PRINT_LENGTH)
}

/** Enough to tell some thousands apart. */
const PRINT_LENGTH = 16
