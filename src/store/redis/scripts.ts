/**
 * The three writes that compare first. A value is the caller's only if its kind is one that has an owner (L lock,
 * U unsettled copy) and the sixteen bytes behind it are the caller's owner; absent is nobody's (P10).
 * Sent as text, not by hash: Redis keeps what it has compiled, and one that has just been restarted needs no second try.
 */

/**
 * KEYS[1] the record. ARGV[1] owner, [2] the new value, [3] milliseconds to live.
 * Returns 1 if replaced, 0 if the value that stands there is not the caller's.
 */
export const SWAP = `
local value = redis.call('GET', KEYS[1])
if not value or string.sub(value, 2, 17) ~= ARGV[1] then return 0 end
local kind = string.sub(value, 1, 1)
if kind ~= 'L' and kind ~= 'U' then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
`

/**
 * KEYS[1] the record. ARGV[1] owner.
 * Returns 1 if deleted, 0 if the value that stands there is not the caller's.
 */
export const UNLOCK = `
local value = redis.call('GETRANGE', KEYS[1], 0, 16)
if string.sub(value, 2, 17) ~= ARGV[1] then return 0 end
local kind = string.sub(value, 1, 1)
if kind ~= 'L' and kind ~= 'U' then return 0 end
return redis.call('DEL', KEYS[1])
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
