/**
 * What a sender wants, and its form on the wire: one request, which is one message or (if split) several.
 * Has the expected id of each message, and the expected bytes at the consumer.
 */
import { createHash } from 'node:crypto'
import { recordId } from '../../../src/core/record/record-id.ts'
import { pairs } from '../../../src/core/headers/lines.ts'
import type { RawHeaders } from '../../../src/core/record/record.ts'
import { scopeOf } from '../../../src/core/scope/scope.ts'
import { callerWith, SECOND_RULES } from '../../harness/caller.ts'
import type { InboxRoute } from './routes.ts'

/** One message, as it must be. */
export interface Part {
  /** Its id, as it stands in `Onceway-Key`. */
  readonly record: string
  readonly key: string
  /** Unique over all routes. null: in no order. */
  readonly group: string | null
  readonly print: string
}

export interface Wish {
  readonly route: InboxRoute
  readonly method: string
  readonly target: string
  readonly fields: RawHeaders
  readonly body: string
  readonly parts: readonly Part[]
}

/** What a consumer does with a message at every delivery: `gone` 410, `refused` always 422, `later` twice 503 first. */
export type Poison = 'gone' | 'refused' | 'later'

export interface Item { readonly key: string, readonly group: string | null, readonly amount: number }

export interface Draft {
  readonly route: InboxRoute
  /** Several if the route splits batches, else one. */
  readonly items: readonly [Item, ...Item[]]
  readonly scope: string
  readonly poison: Poison | null
  /** Another caller's request under the same key. */
  readonly isOther: boolean
}

export function wishOf ({ route, items, scope, poison, isOther }: Draft): Wish {
  const [first] = items
  const texts = items.map(({ key, group, amount }) => JSON.stringify({ id: key, group, amount, text: 'naïve \u{1F4B6}' }))
  const method = first.amount % 3 === 0 ? 'PATCH' : 'POST'
  const target = `/${route.name}/things${isOther && !route.comparesBody ? '?other' : first.amount % 5 === 0 ? '?a=%2F&a=b' : ''}`
  const body = route.batch ? `[${texts.join(' , ')}]` : `${texts[0] ?? ''}${isOther && route.comparesBody ? ' ' : ''}`
  const fields = (type: string): string[] => [
    'Content-Type', type,
    'Authorization', scope,
    ...route.keyIn === 'header' ? ['Idempotency-Key', first.key] : [],
    ...route.order === 'header' && first.group !== null ? ['X-Group', first.group] : [],
    'X-Trail', 'one', 'X-Trail', ' two,  three',
    ...poison === null ? [] : ['X-Poison', poison]
  ]
  const consumers = fields(route.batch ? 'application/cloudevents+json' : 'application/json')
  return {
    route,
    method,
    target,
    fields: fields(route.batch ? 'application/cloudevents-batch+json' : 'application/json'),
    body,
    parts: items.map(({ key, group }, index) => ({
      record: recordOf(route.name, scope, key),
      key: `${route.name} ${scope} ${key}`,
      group: group === null || route.order === null ? null : `${route.name} ${group}`,
      print: printOf(method, target, consumers, createHash('sha256').update(route.batch ? texts[index] ?? '' : body).digest('base64url'))
    }))
  }
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
  'content-type', 'authorization', 'idempotency-key', 'x-group', 'x-trail', 'x-poison', 'prefer'
])

/** `body`: its SHA-256. */
export function printOf (method: string, target: string, rawHeaders: RawHeaders, body: string): string {
  const own = Array.from(pairs(rawHeaders), ([name, value]) => [name.toLowerCase(), value.trim()]).filter(([name = '']) => THEIRS.has(name))
  return createHash('sha256').update(JSON.stringify([method, target, own, body])).digest('base64url').slice(0, PRINT_LENGTH)
}

/** Enough to tell some thousands apart. */
const PRINT_LENGTH = 16
