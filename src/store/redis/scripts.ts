/**
 * Writes that compare first. A value is the caller's only if its kind has an owner (L lock, U unsettled copy) and the sixteen
 * bytes behind the kind are the caller's owner. An absent value is nobody's (P10). Scripts are sent as text, not by hash.
 * Redis caches what it has compiled, and after a restart it needs no second try. It hashes the text each time, so the script of
 * every request is short.
 */

/**
 * Writes at the end of claims and executions, many at once. For each record the caller's own value is replaced or deleted.
 * Then the watchers of some of the records are woken. One script for a batch costs Redis and this process a tenth of one for
 * each record.
 *
 * KEYS the records. ARGV[1] for each record 1 if its watchers are woken, else 0. [2] the text before the id in the name of a
 * channel, [3] where the id begins in a key. Then for each record L and its owner, the new value (empty: delete) and
 * milliseconds to live. Then further channels to wake. Returns nil if all was done, else for each record 1 if it was done. 0:
 * the value is not the caller's, or Redis has no room for the new one. If there is no room, the lock is deleted, because
 * others would wait for it in vain. If the user may not publish, no watcher is woken and no error is returned. What was
 * written stays.
 */
export const WRITE = `local done,all,at={},true,4
for i,key in ipairs(KEYS) do
local mine,new=ARGV[at],ARGV[at+1]
local value=redis.call('GETRANGE',key,0,16)
local ok=value==mine or value=='U'..string.sub(mine,2)
if ok then
if new=='' then ok=redis.call('DEL',key)==1
elseif not redis.pcall('SET',key,new,'PX',ARGV[at+2])['ok'] then
redis.call('DEL',key)
ok=false
end
end
done[i]=ok and '1' or '0'
all=all and ok
at=at+3
end
for i,key in ipairs(KEYS) do
if string.byte(ARGV[1],i)==49 then redis.pcall('PUBLISH',ARGV[2]..string.sub(key,ARGV[3]),'') end
end
for i=at,#ARGV do redis.pcall('PUBLISH',ARGV[i],'') end
if not all then return table.concat(done) end`

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
