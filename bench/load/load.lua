-- The load of one turn. Arguments: work series pool token body before after status [group groups]
--   work    "unique": every request has a key of its own; "pool": the keys 1..pool of the series, in turn
--   before, after: what stands around the key in the answer that this key, and no other, must get
--   status  201, or 202: what is accepted is told apart where it is delivered, not by its answer
--   group groups: a header, and how many values it has in turn
-- Every answer is judged: its status, the right bytes, and of a key that is waited for. wrk does not say on which
-- connection an answer came; that each request gets its own key's answer is seen at the setting up (pool.ts).
-- Prints one line of JSON.

local threads = {}

function setup (thread)
  table.insert(threads, thread)
  thread:set("number", #threads)
end

function init (args)
  local work, series, body = args[1], args[2], args[5]
  pool = work == "pool" and tonumber(args[3]) or nil
  -- A second thread counts from somewhere else: keys stay unique, and all of one length.
  count = pool and math.floor((number - 1) * pool / 2) or (number - 1) * 50000000
  before, after = args[6], args[7]
  stem = series .. "-"
  first, last = #before + 1, #before + #stem + 8
  expected, groups = tonumber(args[8]), tonumber(args[10])
  group = groups and "\r\n" .. args[9] .. ": " or ""
  head = "POST " .. wrk.path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port ..
    "\r\nAuthorization: Bearer " .. args[4] .. "\r\nContent-Type: application/json\r\nContent-Length: " .. #body ..
    "\r\nIdempotency-Key: "
  tail = "\r\n\r\n" .. body
  waiting = {}
  answered, statuses, bytes, unasked, example = 0, 0, 0, 0, ""
end

function request ()
  count = pool and count % pool + 1 or count + 1
  local key = string.format("%s%08d", stem, count)
  waiting[key] = (waiting[key] or 0) + 1
  if groups then return head .. key .. group .. count % groups .. tail end
  return head .. key .. tail
end

function response (status, headers, body)
  answered = answered + 1
  if status ~= expected then
    statuses = statuses + 1
    example = status .. " " .. body
    return
  end
  if groups then return end
  local key = string.sub(body, first, last)
  if body ~= before .. key .. after then
    bytes = bytes + 1
    example = body
    return
  end
  local times = waiting[key]
  if times == nil then
    unasked = unasked + 1
    example = body
  else
    waiting[key] = times > 1 and times - 1 or nil
  end
end

-- User and system time of this process so far, in seconds (100 ticks a second on Linux).
local function cpuSeconds ()
  local file = io.open("/proc/self/stat")
  if not file then return 0 end
  local text = file:read("*a")
  file:close()
  local fields = {}
  for field in text:match("^.*%) (.*)$"):gmatch("%S+") do fields[#fields + 1] = field end
  return (fields[12] + fields[13]) / 100
end

local function quoted (text)
  return '"' .. text:sub(1, 200):gsub('[%c"\\\128-\255]', "?") .. '"'
end

function done (summary, latency)
  local sums = { answered = 0, statuses = 0, bytes = 0, unasked = 0 }
  local shown = ""
  for _, thread in ipairs(threads) do
    for name, sum in pairs(sums) do sums[name] = sum + thread:get(name) end
    if thread:get("example") ~= "" then shown = thread:get("example") end
  end
  local errors = summary.errors
  print(string.format(
    '{"answered":%d,"durationMs":%.3f,"p50Ms":%.3f,"p99Ms":%.3f,"cpuSeconds":%.2f,' ..
    '"wrong":{"statuses":%d,"bytes":%d,"unasked":%d,"example":%s},"broken":{"connect":%d,"read":%d,"write":%d,"timeout":%d}}',
    sums.answered, summary.duration / 1000, latency:percentile(50) / 1000, latency:percentile(99) / 1000, cpuSeconds(),
    sums.statuses, sums.bytes, sums.unasked, quoted(shown), errors.connect, errors.read, errors.write, errors.timeout))
end
