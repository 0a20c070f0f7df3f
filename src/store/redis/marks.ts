/**
 * Marks of mode drop in Redis, one round trip each: a key for each event, or bitmaps of a fixed size. What Redis loses (a
 * failover, an eviction, a flush) goes through once more. No lock of a record is ever one of these keys.
 */
import { geometryOf, placesOf } from '../../core/bloom.ts'
import type { Geometry } from '../../core/bloom.ts'
import { StoreUnavailable } from '../../errors.ts'
import type { MarkResult, MarkStore } from '../../ports.ts'
import type { FilterPlan } from '../marks.ts'
import { whole } from './batches.ts'
import type { Calling } from './batches.ts'
import type { Way } from './way.ts'

/** What of the way a mark takes. */
export type MarkWay = Pick<Way, 'call' | 'available'>

/** KEYS[1] the mark. ARGV: its kind (R running, D done), token, milliseconds to live. 0: mine; 1: somebody's, running; 2: done. */
const MARK = `
local value = redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3], 'NX', 'GET')
if not value then return 0 end
if string.sub(value, 2) == ARGV[2] then
  if string.sub(value, 1, 1) == 'R' then redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) end
  return 0
end
if string.sub(value, 1, 1) == 'D' then return 2 end
return 1
`

const DONE = `
redis.call('SET', KEYS[1], 'D' .. ARGV[1], 'PX', ARGV[2])
return 1
`

/** Only its own token takes a mark back; absent is not mine. */
const REMOVE = `
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 2) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`

/**
 * KEYS two bitmaps: of this window and the one before, in turn. ARGV[1] the window in milliseconds, [2] look, claim (set what is
 * new) or add, then the places. Time is this server's, one for the whole script. A bitmap ends a millisecond before the window
 * that would take it up again begins, so that it begins empty. 1: all of them were set, in one of the two.
 */
const FILTER = `
local time = redis.call('TIME')
local window = tonumber(ARGV[1])
local number = math.floor((tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)) / window)
local current = KEYS[number % 2 + 1]
local previous = KEYS[(number + 1) % 2 + 1]
local function has (key)
  for at = 3, #ARGV do
    if redis.call('GETBIT', key, ARGV[at]) == 0 then return false end
  end
  return true
end
local seen = has(current) or has(previous)
if ARGV[2] == 'add' or (ARGV[2] == 'claim' and not seen) then
  for at = 3, #ARGV do redis.call('SETBIT', current, ARGV[at], 1) end
  redis.call('PEXPIREAT', current, string.format('%.0f', (number + 2) * window - 1))
end
return seen and 1 or 0
`

async function ask (way: MarkWay, calling: Calling): Promise<number> {
  const available = way.available()
  const reply = available ? await way.call(calling) : undefined
  if (typeof reply === 'number') return reply
  throw new StoreUnavailable('redis', calling.operation, available)
}

export class RedisMarks implements MarkStore {
  readonly name = 'redis'
  readonly #way: MarkWay
  readonly #prefix: string

  constructor (way: MarkWay, prefix: string) {
    this.#way = way
    this.#prefix = prefix
  }

  async mark (id: Buffer, token: Buffer, as: 'running' | 'done', keepMs: number): Promise<MarkResult> {
    const found = await this.#ask('mark', id, MARK, [as === 'done' ? 'D' : 'R', token, whole(keepMs)])
    return found === 0 ? 'marked' : found === 1 ? 'running' : 'done'
  }

  async done (id: Buffer, token: Buffer, keepMs: number): Promise<void> {
    await this.#ask('mark_done', id, DONE, [token, whole(keepMs)])
  }

  async remove (id: Buffer, token: Buffer): Promise<boolean> {
    await this.#ask('mark_remove', id, REMOVE, [token])
    return true
  }

  #ask (operation: string, id: Buffer, script: string, values: Calling['values']): Promise<number> {
    const key = `${this.#prefix}:mark:${id.toString('base64url')}`
    return ask(this.#way, { operation, key, keys: [key], script, values })
  }
}

/** A filter of another size or window is another pair of keys: their bits mean nothing to each other. */
export class RedisFilter implements MarkStore {
  readonly name = 'bloom'
  readonly #way: MarkWay
  readonly #geometry: Geometry
  readonly #windowMs: number
  /** In one slot, for the braces. */
  readonly #keys: readonly [string, string]

  constructor (way: MarkWay, prefix: string, { route, windowMs, ...size }: FilterPlan) {
    this.#way = way
    this.#geometry = geometryOf(size)
    this.#windowMs = windowMs
    const name = `${prefix}:bloom:{${route}:${this.#geometry.bits}:${this.#geometry.probes}:${windowMs}}`
    this.#keys = [`${name}:0`, `${name}:1`]
  }

  async mark (id: Buffer, _token: Buffer, as: 'running' | 'done'): Promise<MarkResult> {
    return await this.#ask('bloom_mark', id, as === 'done' ? 'claim' : 'look') === 1 ? 'done' : 'marked'
  }

  async done (id: Buffer): Promise<void> {
    await this.#ask('bloom_done', id, 'add')
  }

  async remove (): Promise<boolean> { return false }

  #ask (operation: string, id: Buffer, how: 'look' | 'claim' | 'add'): Promise<number> {
    const [key] = this.#keys
    return ask(this.#way, { operation, key, keys: this.#keys, script: FILTER, values: [this.#windowMs, how, ...placesOf(id, this.#geometry)] })
  }
}
