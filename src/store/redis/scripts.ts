/**
 * Writes that compare first. A value is the caller's only if its kind has an owner (L lock, U unsettled copy) and the sixteen
 * bytes behind the kind are the caller's owner. An absent value is nobody's (P10). Scripts are sent as text, not by hash.
 * Redis caches what it has compiled, and after a restart it needs no second try.
 */

/**
 * KEYS the records. ARGV[1] milliseconds to live of the first lock, [2] its bytes, and so on. Sets every lock whose key has
 * no value. Returns for each record the value that it had before. nil: none, and the lock is the caller's.
 *
 * One script for a batch, not one command for each. Redis does the same work, and this process handles one reply.
 */
export const LOCK = `
local found = {}
for i, key in ipairs(KEYS) do
  found[i] = redis.call('SET', key, ARGV[i * 2], 'PX', ARGV[i * 2 - 1], 'NX', 'GET')
end
return found
`

/**
 * Writes at the end of claims and executions, many at once. For each record the caller's own value is replaced or deleted.
 * Then the watchers of some of the records are woken. One script for a batch costs Redis and this process a tenth of one for
 * each record.
 *
 * KEYS the records. ARGV[1] how many channels to wake, then the channels, then for each record its owner, the new value
 * (empty: delete) and milliseconds to live. Returns for each record 1 if it was done. 0: the value is not the caller's, or
 * Redis has no room for the new one. If there is no room, the lock is deleted, because others would wait for it in vain. If
 * the user may not publish, no watcher is woken and no error is returned. What was written stays.
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
 * Prolongs the locks that are still the caller's, never a copy. Returns how many.
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

/** KEYS[1] the record. ARGV[1] the beginning of every copy of a generation. Deletes a value that begins so, and nothing else. */
export const CLEAR = `
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
`
