/** The cells as a configuration for HAProxy 2.6 and later, and the Lua file that it loads: HAProxy has no MurmurHash2 of its own. */
import { SLOTS, SLOT_WIDTH } from '../core/cells/cells.ts'
import type { Cell, Cells } from '../core/cells/cells.ts'
import { CELL_DOWN, CONNECT_WITHIN_S, RETRY_AFTER_S } from './cells-down.ts'

/** HAProxy reads 64 words of a line. */
const NAMES_IN_LINE = 32
/** Longer than a gateway takes for an answer (`answerWithin`), and as long as nginx waits. */
const SERVER_WITHIN_S = 60
export const LUA_FILE = 'onceway-cells.lua'

export function haproxyConfig (cells: Cells): string {
  const { listen, assigned } = cells
  const first = cells.cells.find(({ slots }) => slots.some(([from]) => from === 0))
  return `global
  # Beside this file: onceway cell-of --print haproxy-lua
  lua-load ${LUA_FILE}

defaults onceway
  mode http
  timeout client ${SERVER_WITHIN_S}s
  timeout connect ${CONNECT_WITHIN_S}s
  timeout server ${SERVER_WITHIN_S}s
  timeout tunnel 1h
  # Only what was not sent is tried again, and only in the same cell.
  retry-on conn-failure
  retries 2
  option redispatch 1
${[502, 503, 504].map(problem).join('\n')}

frontend onceway from onceway
  bind ${listen.includes(':') ? listen : `:${listen}`}
  http-request set-var(txn.onceway_text) ${fetchOf(cells)}
  http-request set-var(txn.onceway_slot) var(txn.onceway_text),lua.onceway_slot
  option forwardfor
  http-request set-header X-Forwarded-Proto %[ssl_fc,iif(https,http)]
${cells.cells.flatMap(({ name }) => assignedLines(name, assigned)).join('')}${cells.cells.flatMap(slotLines).join('')}  default_backend onceway_cell_${first?.name ?? ''}

${cells.cells.map((cell) => backend(cells, cell)).join('\n')}`
}

/** The first line of the field: HAProxy takes the last one otherwise. */
function fetchOf ({ by, header }: Cells): string {
  return `req.fhdr(${header ?? 'host'},1),lua.onceway_${by}`
}

/** HAProxy generates 503 for a cell without a server, 502 and 504 for a request that may have been sent. */
function problem (status: number): string {
  return `  http-error status ${status} content-type application/problem+json string '${CELL_DOWN.replace('503', String(status))}' hdr Retry-After ${RETRY_AFTER_S}`
}

function assignedLines (cell: string, assigned: ReadonlyMap<string, string>): string[] {
  const names = Array.from(assigned).filter(([, to]) => to === cell).map(([name]) => name)
  const lines: string[] = []
  for (let at = 0; at < names.length; at += NAMES_IN_LINE) {
    lines.push(`  use_backend onceway_cell_${cell} if { var(txn.onceway_text),lower -m str ${names.slice(at, at + NAMES_IN_LINE).join(' ')} }\n`)
  }
  return lines
}

function slotLines ({ name, slots }: Cell): string[] {
  const lines: string[] = []
  for (let at = 0; at < slots.length; at += NAMES_IN_LINE) {
    const ranges = slots.slice(at, at + NAMES_IN_LINE).map(([from, to]) => `${from}:${to}`)
    lines.push(`  use_backend onceway_cell_${name} if { var(txn.onceway_slot) -m int ${ranges.join(' ')} }\n`)
  }
  return lines
}

function backend ({ by, header }: Cells, { name, gateways }: Cell): string {
  // Copies of a request meet in one gateway, and replays come from its memory.
  const balance = by === 'key' ? `  balance hdr(${header ?? ''})\n  hash-type consistent\n` : '  balance roundrobin\n'
  const servers = gateways.map((gateway, at) => `  server gateway${at + 1} ${gateway} check inter 1s fall 2 rise 1\n`)
  return `backend onceway_cell_${name} from onceway\n${balance}${servers.join('')}`
}

/** The same as core/cells/cells.ts, in Lua 5.3. */
export function haproxyLua (): string {
  return `local function murmur_hash2(text)
  local M, hash, at = 0x5bd1e995, #text, 1
  while #text - at + 1 >= 4 do
    local word = (string.unpack("<I4", text, at) * M) & 0xffffffff
    word = ((word ~ (word >> 24)) * M) & 0xffffffff
    hash = ((hash * M) & 0xffffffff) ~ word
    at = at + 4
  end
  local left = #text - at + 1
  if left > 0 then hash = ((hash ~ string.unpack("<I" .. left, text, at)) * M) & 0xffffffff end
  hash = ((hash ~ (hash >> 13)) * M) & 0xffffffff
  return hash ~ (hash >> 15)
end

core.register_converters("onceway_slot", function(text)
  return math.min(${SLOTS - 1}, murmur_hash2(text) // ${SLOT_WIDTH})
end)

core.register_converters("onceway_key", function(value)
  return value:match('^[ \\t]*"([^"\\\\]*)["\\\\]') or value:match('^[ \\t]*([^"\\\\ \\t,]*)')
end)

core.register_converters("onceway_tenant", function(value)
  return value:match("^[ \\t]*(.-)[ \\t]*$")
end)

core.register_converters("onceway_host", function(value)
  local host = value:match("^[ \\t]*(.-)[ \\t]*$"):lower()
  host = host:match("^%[[^%]]*%]") or host:match("^[^:]*")
  return (host:gsub("%.$", ""))
end)
`
}
