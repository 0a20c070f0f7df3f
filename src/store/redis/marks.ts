/**
 * Marks of mode drop in Redis, one round trip each: a key for each event, or bitmaps of a fixed size. What Redis loses (a
 * failover, an eviction, a flush) goes through once more. No lock of a record is ever one of these keys.
 *
 * Redis does not know which scheme claims. While schemes change, an event has two keys, and they are in two slots of a
 * cluster. So the key under the earlier id decides, and gateways of both schemes write it. A gateway of the greater scheme
 * first leaves a note there. The note is set only if no live mark stands there. Then the gateway marks under its own id. A
 * gateway of the lesser scheme finds the note, and the reply is "moved". A crash in between leaves a note that ends by
 * itself. It is in the way of a retry no more than notes of others by the same scheme. A note stands as long as the mark for
 * which it was left.
 */
import { geometryOf, bitPositions } from '../../core/drop/bloom.ts'
import type { Geometry } from '../../core/drop/bloom.ts'
import { StoreUnavailable } from '../../ports/errors.ts'
import type { MarkEnding, Marking, MarkResult, MarkStore } from '../../ports/marks.ts'
import type { FilterPlan } from '../shared/mark-stores.ts'
import { whole } from './batches.ts'
import type { Calling } from './batches.ts'
import type { Topology } from './topology.ts'

/** The part of the topology that marks use. */
export type MarkTopology = Pick<Topology, 'call' | 'available'>

/**
 * KEYS[1] the mark. ARGV: its kind (R running, D done), token, milliseconds to live, the number of its scheme, and `look` if
 * nothing may be begun here. 0: mine. 1: another's, running. 2: done. 3: moved, by a note (M, and the number of the scheme
 * that left it) or because nothing was begun. A note of the mark's own scheme, or of one before it, is about others.
 */
const MARK = `
local value
if ARGV[5] == 'look' then
  value = redis.call('GET', KEYS[1])
else
  value = redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3], 'NX', 'GET')
  if not value then return 0 end
end
if not value then return 3 end
if string.sub(value, 1, 1) == 'M' then
  if ARGV[5] == 'look' or tonumber(string.sub(value, 2)) > tonumber(ARGV[4]) then return 3 end
  redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3])
  return 0
end
if string.sub(value, 2) == ARGV[2] then
  if string.sub(value, 1, 1) == 'R' then redis.call('SET', KEYS[1], ARGV[1] .. ARGV[2], 'PX', ARGV[3]) end
  return 0
end
if string.sub(value, 1, 1) == 'D' then return 2 end
return 1
`

/** KEYS[1] the mark under the earlier id. ARGV: the number of the scheme, milliseconds to live. 0: a mark stands there that lives. */
const NOTE = `
local value = redis.call('SET', KEYS[1], 'M' .. ARGV[1], 'PX', ARGV[2], 'NX', 'GET')
if not value then return 1 end
if string.sub(value, 1, 1) ~= 'M' then return 0 end
if tonumber(string.sub(value, 2)) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], 'M' .. ARGV[1], 'KEEPTTL') end
redis.call('PEXPIRE', KEYS[1], ARGV[2], 'GT')
return 1
`

const STANDS = `
local value = redis.call('GET', KEYS[1])
return value and string.sub(value, 1, 1) ~= 'M' and 1 or 0
`

const DONE = `
redis.call('SET', KEYS[1], 'D' .. ARGV[1], 'PX', ARGV[2])
return 1
`

/** A mark is taken back only with its own token. An absent mark is not mine. */
const REMOVE = `
local value = redis.call('GET', KEYS[1])
if value and string.sub(value, 2) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
`

/**
 * KEYS two bitmaps: of this window and the one before, in turn. ARGV[1] the window in milliseconds, [2] look, claim (set what
 * is new) or add, [3] how many places the id has, then these, then those of the earlier id, if there is one. Time is this
 * server's, one for the whole script. A bitmap ends a millisecond before the window that would take it up again begins. So it
 * begins empty. 1: all of the id's were set, in one of the two. 2: not these, but the earlier id's. What is set is set for
 * both. So a gateway that knows the earlier id alone finds it done.
 */
const FILTER = `
local time = redis.call('TIME')
local window = tonumber(ARGV[1])
local number = math.floor((tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)) / window)
local current = KEYS[number % 2 + 1]
local previous = KEYS[(number + 1) % 2 + 1]
local last = 3 + tonumber(ARGV[3])
local function has (key, from, to)
  for at = from, to do
    if redis.call('GETBIT', key, ARGV[at]) == 0 then return false end
  end
  return from <= to
end
local seen = 0
if has(current, 4, last) or has(previous, 4, last) then
  seen = 1
elseif has(current, last + 1, #ARGV) or has(previous, last + 1, #ARGV) then
  seen = 2
end
if ARGV[2] == 'add' or (ARGV[2] == 'claim' and seen == 0) then
  for at = 4, #ARGV do redis.call('SETBIT', current, ARGV[at], 1) end
  redis.call('PEXPIREAT', current, string.format('%.0f', (number + 2) * window - 1))
end
return seen
`

async function ask (topology: MarkTopology, calling: Calling): Promise<number> {
  const available = topology.available()
  const reply = available ? await topology.call(calling) : undefined
  if (typeof reply === 'number') return reply
  throw new StoreUnavailable('redis', calling.operation, available)
}

export class RedisMarks implements MarkStore {
  readonly name = 'redis'
  readonly #topology: MarkTopology
  readonly #prefix: string

  constructor (topology: MarkTopology, prefix: string) {
    this.#topology = topology
    this.#prefix = prefix
  }

  async mark ({ id, scheme, earlierId, token, as, keepMs }: Marking): Promise<MarkResult> {
    const isFree = earlierId === null || await this.#note(earlierId, scheme, keepMs)
    const found = await this.#ask('mark', id, MARK, [as === 'done' ? 'D' : 'R', token, whole(keepMs), scheme, isFree ? '' : 'look'])
    return found === 0 ? 'marked' : found === 1 ? 'running' : found === 2 ? 'done' : 'moved'
  }

  async stands (id: Buffer): Promise<boolean> {
    return await this.#ask('mark_look', id, STANDS, []) === 1
  }

  async done ({ id, scheme, earlierId, token, keepMs }: MarkEnding): Promise<void> {
    await this.#ask('mark_done', id, DONE, [token, whole(keepMs)])
    // Else it would end with what ran. What stands there instead by now is as true.
    if (earlierId !== null) await this.#note(earlierId, scheme, keepMs)
  }

  async remove (id: Buffer, token: Buffer): Promise<boolean> {
    await this.#ask('mark_remove', id, REMOVE, [token])
    return true
  }

  /** false: a mark that lives stands there, of a gateway that knows the earlier scheme alone. */
  async #note (earlierId: Buffer, scheme: number, keepMs: number): Promise<boolean> {
    return await this.#ask('mark_note', earlierId, NOTE, [scheme, whole(keepMs)]) === 1
  }

  #ask (operation: string, id: Buffer, script: string, values: Calling['values']): Promise<number> {
    const key = `${this.#prefix}:mark:${id.toString('base64url')}`
    return ask(this.#topology, { operation, key, keys: [key], script, values })
  }
}

/** A filter of another size or window is another pair of keys: their bits mean nothing to each other. */
export class RedisFilter implements MarkStore {
  readonly name = 'bloom'
  readonly #topology: MarkTopology
  readonly #geometry: Geometry
  readonly #windowMs: number
  /** In one slot, for the braces. */
  readonly #keys: readonly [string, string]

  constructor (topology: MarkTopology, prefix: string, { route, windowMs, ...size }: FilterPlan) {
    this.#topology = topology
    this.#geometry = geometryOf(size)
    this.#windowMs = windowMs
    const name = `${prefix}:bloom:{${route}:${this.#geometry.bits}:${this.#geometry.probes}:${windowMs}}`
    this.#keys = [`${name}:0`, `${name}:1`]
  }

  async mark ({ id, earlierId, as }: Pick<Marking, 'id' | 'earlierId' | 'as'>): Promise<MarkResult> {
    const found = await this.#ask('bloom_mark', id, earlierId, as === 'done' ? 'claim' : 'look')
    return found === 0 ? 'marked' : found === 1 ? 'done' : 'moved'
  }

  async stands (id: Buffer): Promise<boolean> {
    return await this.#ask('bloom_look', id, null, 'look') === 1
  }

  async done ({ id, earlierId }: Pick<MarkEnding, 'id' | 'earlierId'>): Promise<void> {
    await this.#ask('bloom_done', id, earlierId, 'add')
  }

  async remove (): Promise<boolean> { return false }

  #ask (operation: string, id: Buffer, earlierId: Buffer | null, how: 'look' | 'claim' | 'add'): Promise<number> {
    const [key] = this.#keys
    const places = bitPositions(id, this.#geometry)
    const earlier = earlierId === null ? [] : bitPositions(earlierId, this.#geometry)
    return ask(this.#topology, {
      operation,
      key,
      keys: this.#keys,
      script: FILTER,
      values: [this.#windowMs, how, places.length, ...places, ...earlier]
    })
  }
}
