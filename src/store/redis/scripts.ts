/**
 * The writes that compare first. A value is the caller's only if its kind is one that has an owner (L lock,
 * U unsettled copy) and the sixteen bytes behind it are the caller's owner; absent is nobody's (P10).
 * Sent as text, not by hash: Redis keeps what it has compiled, and one that has just been restarted needs no second try.
 */

/**
 * KEYS the records. ARGV[1] milliseconds to live of the first lock, [2] its bytes, and so on. Puts every lock where nothing
 * stands. Returns for each record what stood there before; nil: nothing, and the lock is the caller's.
 *
 * One script for a batch, not one command for each: what Redis does is the same, and this process handles one reply.
 */
export const LOCK = `
local found = {}
for i, key in ipairs(KEYS) do
  found[i] = redis.call('SET', key, ARGV[i * 2], 'PX', ARGV[i * 2 - 1], 'NX', 'GET')
end
return found
`

/**
 * What stands at the end of claims and executions, many at once: of each record the caller's own value is replaced, or
 * deleted; then whoever waits for some of them is woken. One script for a batch costs Redis and this process a tenth of
 * one for each record.
 *
 * KEYS the records. ARGV[1] how many channels to wake, then the channels, then for each record its owner, the new value
 * (empty: delete) and milliseconds to live. Returns for each record 1 if it was done, 0 if the value that stands there is
 * not the caller's, or Redis has no room for the new one (then the lock goes: others would wait for it in vain). A user who
 * may not publish wakes nobody, and is told nothing: what was written stands.
 */
export const WRITE = `
local wakes = tonumber(ARGV[1])
local done = {}
for i, key in ipairs(KEYS) do
  local at = wakes + i * 3 - 1
  local value = redis.call('GETRANGE', key, 0, 16)
  local kind = string.sub(value, 1, 1)
  if string.sub(value, 2, 17) ~= ARGV[at] or (kind ~= 'L' and kind ~= 'U') then
    done[i] = 0
  elseif ARGV[at + 1] == '' then
    done[i] = redis.call('DEL', key)
  elseif redis.pcall('SET', key, ARGV[at + 1], 'PX', ARGV[at + 2])['ok'] then
    done[i] = 1
  else
    redis.call('DEL', key)
    done[i] = 0
  end
end
for i = 2, wakes + 1 do redis.pcall('PUBLISH', ARGV[i], '') end
return done
`

/**
 * KEYS the records. ARGV[1] milliseconds to live, [i + 1] the owner of KEYS[i].
 * Prolongs the locks that are still the caller's; never a copy. Returns how many.
 */
export const RENEW = `
local renewed = 0
for i, key in ipairs(KEYS) do
  if redis.call('GETRANGE', key, 0, 16) == 'L' .. ARGV[i + 1] then
    renewed = renewed + redis.call('PEXPIRE', key, ARGV[1])
  end
end
return renewed
`

/** KEYS[1] the record. ARGV[1] how every copy of a generation begins: such a one is deleted, and nothing else. */
export const CLEAR = `
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`
