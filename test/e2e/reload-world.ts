/** A gateway process with a configuration file that a test rewrites, and SIGHUP. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { call } from '../harness/call.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { startProcess } from '../harness/process-gateway.ts'
import type { LogLine, ProcessGateway } from '../harness/process-gateway.ts'

const TAKEN = 'configuration reloaded'
const REFUSED = 'configuration not reloaded: the one that runs stays'
/** A test, or another owner that ends. */
interface Ending { after: (end: () => Promise<void> | void) => void }

/** A reload is some milliseconds of work; a busy machine may give them late. */
const RELOADED_WITHIN_MS = 20_000

export interface Reloadable extends ProcessGateway {
  readonly file: string
  /** Writes the file (absent: leaves it as it is), sends SIGHUP, and resolves with the line that says what became of it. */
  readonly reload: (config?: string) => Promise<LogLine>
  /** The same without a look at the log; resolves when it is counted. */
  readonly reloadQuietly: (config: string, result: 'ok' | 'refused') => Promise<void>
}

export async function startReloadable (
  t: Ending,
  config: string,
  args: readonly string[] = [],
  env: Readonly<Record<string, string>> = {}
): Promise<Reloadable> {
  const directory = makeDirectory('reload')
  t.after(() => { directory.remove() })
  const file = join(directory.path, 'onceway.yaml')
  writeFileSync(file, config)
  const gateway = await startProcess(t, { args: ['--config', file, ...args], env })
  const outcomes = (): LogLine[] => gateway.logLines().filter(({ msg }) => msg === TAKEN || msg === REFUSED)
  return {
    ...gateway,
    file,
    reload: async (text) => {
      const before = outcomes().length
      writeFileSync(file, text ?? readFileSync(file))
      gateway.signal('SIGHUP')
      await gateway.logged(() => outcomes().length > before)
      return outcomes()[before] as LogLine
    },
    reloadQuietly: async (text, result) => {
      const before = await reloads(gateway, result)
      writeFileSync(file, text)
      gateway.signal('SIGHUP')
      await eventually(async () => await reloads(gateway, result) > before, `a reload that is ${result}`, RELOADED_WITHIN_MS)
    }
  }
}

/** `onceway_config_reloads_total` of this result. */
export async function reloads ({ adminUrl }: ProcessGateway, result: 'ok' | 'refused'): Promise<number> {
  const { text } = await call(adminUrl, '/metrics', { method: 'GET' })
  return Number(new RegExp(`^onceway_config_reloads_total\\{result="${result}"\\} (\\d+)$`, 'm').exec(text)?.[1])
}

export interface FileOptions {
  readonly upstream: string
  /** Of the route's idempotency block. */
  readonly idempotency?: string
  /** Of the upstream. */
  readonly upstreamMore?: string
  /** Of the file. */
  readonly more?: string
  readonly listen?: string
}

/** One guarded route `things` (POST of everything); the rest passes through. */
export function fileOf ({
  upstream,
  idempotency = '',
  upstreamMore = '',
  more = '',
  listen = '{ host: 127.0.0.1, port: 0 }'
}: FileOptions): string {
  return `
version: 1
listen: ${listen}
admin: { host: 127.0.0.1, port: 0 }
drain: { delay: 0s, timeout: 5s }
${more}
upstreams:
  witness: { url: "${upstream}", timeout: 20s${upstreamMore} }
routes:
  - name: things
    match: { path: "/*", methods: [POST] }
    upstream: witness
    idempotency: { scope: public, lease: 5s, inFlight: { wait: 0s }${idempotency} }
  - match: { path: "/*" }
    upstream: witness
`
}
