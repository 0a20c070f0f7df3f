/** `onceway cell-of`: where a key, tenant or host goes, and the proxies' configurations, which send it there. */
import { loadCells } from '../config/cells.ts'
import { ConfigInvalid, problemLine } from '../config/read/problem.ts'
import { cellOf } from '../core/cells/cells.ts'
import { StartError } from '../ports/errors.ts'
import { haproxyConfig, haproxyLua, LUA_FILE } from './cells-haproxy.ts'
import { nginxConfig } from './cells-nginx.ts'
import { readOptions, textOption } from './command.ts'
import type { Command, Terminal } from './command.ts'

const DEFAULT_FILE = 'cells.yaml'
const PRINTED = { nginx: nginxConfig, haproxy: haproxyConfig, 'haproxy-lua': haproxyLua } as const

export const cellOfCommand: Command = {
  help: `usage: onceway cell-of VALUE [--config FILE]
       onceway cell-of --print nginx|haproxy|haproxy-lua [--config FILE]

Prints the cell of a key, a tenant or a host, or the configuration of the proxy that sends it there. Both come from one
function, so they agree.

  VALUE          the value of the header as it was sent, or the host. "" for a request without one
  --print WHAT   nginx: a file for its http context. haproxy: a configuration, which loads the file of haproxy-lua
                 (${LUA_FILE}) from the directory that HAProxy is started in
  --config FILE  the file of cells (default: ${DEFAULT_FILE})

examples:
  onceway cell-of --config cells.yaml 7f3a1c7e-0b7d-4f0e-9a53-1f8e3a2f7c11
  onceway cell-of --config cells.yaml --print nginx > /etc/nginx/conf.d/onceway-cells.conf`,
  run: (args, terminal) => Promise.resolve(runCellOf(args, terminal))
}

function runCellOf (args: readonly string[], { out, err }: Terminal): number {
  const options = readOptions(args, { config: { type: 'string' }, print: { type: 'string' } }, 1)
  const [value] = options.positionals
  const print = textOption(options, 'print')
  if ((value === undefined) === (print === undefined)) throw new StartError('Name a VALUE, or what to --print.', 2)
  if (print !== undefined && !Object.hasOwn(PRINTED, print)) {
    throw new StartError(`--print is one of ${Object.keys(PRINTED).join(', ')}.`, 2)
  }
  try {
    const cells = loadCells(textOption(options, 'config') ?? DEFAULT_FILE)
    if (print !== undefined) {
      out(PRINTED[print as keyof typeof PRINTED](cells).trimEnd())
      return 0
    }
    const { cell, slot } = cellOf(cells, Buffer.from(value ?? '', 'utf8'))
    out(`${cell.name}  (${slot === null ? 'assigned' : `slot ${slot}`}, ${cell.gateways.length === 0 ? 'closed' : cell.gateways.join(' ')})`)
    return 0
  } catch (error) {
    if (!(error instanceof ConfigInvalid)) throw error
    error.problems.forEach((problem) => { err(problemLine(problem)) })
    return 2
  }
}
