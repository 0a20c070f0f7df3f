/** The cells as a file for the `http` context of nginx. Works with the modules that every build has. */
import { SLOTS } from '../core/cells/cells.ts'
import type { Cell, Cells } from '../core/cells/cells.ts'
import { CELL_DOWN, CONNECT_WITHIN_S, RETRY_AFTER_S } from './cells-down.ts'

/** nginx hides a gateway for this long after a failed connection. */
const FAILED_FOR_S = 5
const IDLE_CONNECTIONS = 32
/** What nginx's default sizes hold: half of its 2,048 buckets, and names that fit into one of 64 bytes. */
const NAMES_MAX = 1_024
const NAME_CHARS_MAX = 40
const BUCKET_BYTES = 256

export function nginxConfig (cells: Cells): string {
  return `${mapSizes(cells)}${textVariable(cells)}
split_clients $onceway_text $onceway_slot_cell {
${slotLines(cells)}
}
${cellVariable(cells)}
map $http_upgrade $onceway_connection { default upgrade; "" ""; }

${cells.cells.map((cell) => upstream(cells, cell)).join('\n')}
server {
  listen ${cells.listen};
  # Of requests whose method is idempotent, nginx repeats those that may have been sent. PUT and DELETE must not be.
  location / {
    error_page 418 = @onceway_once;
    if ($request_method !~ ^(?:GET|HEAD|OPTIONS|POST|PATCH|LOCK)$) { return 418; }
    proxy_next_upstream error timeout;
${proxied()}
  }
  location @onceway_once {
    proxy_next_upstream off;
${proxied()}
  }
  # Never another cell: the keys of this one have no records there.
  location @onceway_cell_down {
    default_type application/problem+json;
    add_header Retry-After ${RETRY_AFTER_S} always;
    return 503 '${CELL_DOWN}';
  }
}
`
}

/** nginx takes them once, and before the first map. */
function mapSizes ({ assigned }: Cells): string {
  const names = Array.from(assigned.keys())
  if (names.length <= NAMES_MAX && names.every((name) => name.length <= NAME_CHARS_MAX)) return ''
  return `map_hash_bucket_size ${BUCKET_BYTES};\nmap_hash_max_size ${Math.max(2 * NAMES_MAX, 2 * names.length)};\n`
}

/** The capture ends where core/cells/cells.ts says. nginx trims blanks of a value, but no tabs. */
function textVariable ({ by, header }: Cells): string {
  if (by === 'host') return 'map $host $onceway_text { default $host; }'
  const source = `$http_${header?.replaceAll('-', '_') ?? ''}`
  if (by === 'tenant') return `map ${source} $onceway_text {\n  default "";\n  '~^[ \\t]*(?<onceway_tenant>.*[^ \\t])[ \\t]*$' $onceway_tenant;\n}`
  return `map ${source} $onceway_text {
  default "";
  '~^[ \\t]*\\"(?<onceway_quoted>[^\\"\\\\\\\\]*)[\\"\\\\\\\\]' $onceway_quoted;
  '~^[ \\t]*(?<onceway_bare>[^\\"\\\\\\\\ \\t,]*)' $onceway_bare;
}`
}

/** A line for each slot: a sum of percentages would be rounded elsewhere. */
function slotLines ({ cells }: Cells): string {
  const owners = new Array<string>(SLOTS)
  for (const { name, slots } of cells) for (const [from, to] of slots) owners.fill(name, from, to + 1)
  return owners.map((name, slot) => `  ${slot === SLOTS - 1 ? '*' : '0.10%'} ${name};`).join('\n')
}

/** nginx compares the texts of a map without case. A backslash keeps words such as \`default\` from being its own. */
function cellVariable ({ assigned }: Cells): string {
  if (assigned.size === 0) return 'map $onceway_slot_cell $onceway_cell { default $onceway_slot_cell; }'
  const lines = Array.from(assigned, ([name, cell]) => `  "\\\\${name}" ${cell};\n`)
  return `map $onceway_text $onceway_cell {\n  default $onceway_slot_cell;\n${lines.join('')}}`
}

function upstream ({ by }: Cells, { name, gateways }: Cell): string {
  const servers = gateways.length === 0
    ? ['  server 127.0.0.1:1 down;']
    : gateways.map((gateway) => `  server ${gateway} max_fails=1 fail_timeout=${FAILED_FOR_S}s;`)
  // Copies of a request meet in one gateway, and replays come from its memory.
  const balance = by === 'key' ? '  hash $onceway_text consistent;\n' : ''
  return `upstream onceway_cell_${name} {\n  zone onceway_cell_${name} 64k;\n${balance}${servers.join('\n')}\n  keepalive ${IDLE_CONNECTIONS};\n}\n`
}

function proxied (): string {
  return `    error_page 502 504 = @onceway_cell_down;
    proxy_pass http://onceway_cell_$onceway_cell;
    proxy_http_version 1.1;
    proxy_connect_timeout ${CONNECT_WITHIN_S}s;
    proxy_set_header Host $http_host;
    proxy_set_header Connection $onceway_connection;
    proxy_set_header Upgrade $http_upgrade;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Proto $scheme;`
}
