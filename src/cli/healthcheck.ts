/** `onceway healthcheck`: queries the admin port of a gateway, for containers without curl. */
import { StartError } from '../ports/errors.ts'
import { hostInUrl, reachable } from '../http/listen.ts'
import { CONFIG_OPTIONS, configFor, readOptions, textOption } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'

/** Docker's default timeout is 30 s. A gateway that needs longer than this for one line of JSON is not healthy. */
const ANSWER_WITHIN_MS = 3_000

export const healthcheck: Command = {
  help: `usage: onceway healthcheck [--live] [--config FILE] [--url URL]

Queries the admin port of a running gateway. Exit 0: ready (or alive). Exit 1: not.

  --live         check /livez instead of /readyz
  --config FILE  the gateway's file, for the admin port (default: 127.0.0.1:8081, or ONCEWAY_ADMIN_HOST and _PORT)
  --url URL      address of the admin port, instead of the file's

examples:
  onceway healthcheck
  onceway healthcheck --live --url http://127.0.0.1:9001`,
  run: checkHealth
}

async function checkHealth (args: readonly string[], { env, out, err }: Terminal): Promise<number> {
  const options = readOptions(args, { ...CONFIG_OPTIONS, live: { type: 'boolean' }, url: { type: 'string' } })
  const url = new URL(options.values.live === true ? '/livez' : '/readyz', adminUrl(options, env))
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS), redirect: 'error' })
    const text = (await answer.text()).trim()
    if (answer.ok) out(text)
    else err(text)
    return answer.ok ? 0 : 1
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } }
    err(`onceway: no answer from ${url.href} (${cause?.code ?? (error as Error).name}).`)
    return 1
  }
}

function adminUrl (options: Options, env: Terminal['env']): string {
  const url = textOption(options, 'url')
  if (url !== undefined && (!URL.canParse(url) || !/^https?:/.test(url))) throw new StartError('--url must be http://host:port.', 2)
  if (url !== undefined) return url
  const { host, port } = configFor(options, env).admin
  return reachable(`http://${hostInUrl(host)}:${port}`)
}
