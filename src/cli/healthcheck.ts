/** `onceway healthcheck`: queries the admin port of a gateway, for containers without curl. */
import { StartError } from '../ports/errors.ts'
import { hostInUrl, reachable } from '../http/listen.ts'
import { adminRequest, clientTls, TLS_HELP, TLS_OPTIONS } from './admin-request.ts'
import type { ClientTls } from './admin-request.ts'
import { CONFIG_OPTIONS, configFor, readOptions, textOption } from './command.ts'
import type { Command, Options, Terminal } from './command.ts'

/** Docker's default timeout is 30 s. A gateway that needs longer than this for one line of JSON is not healthy. */
const ANSWER_WITHIN_MS = 3_000
const HTTP_OK = 200

export const healthcheck: Command = {
  help: `usage: onceway healthcheck [--live] [--config FILE] [--url URL] [--ca-file F] [--cert-file F --key-file F]

Queries the admin port of a running gateway. Exit 0: ready (or alive). Exit 1: not.

  --live           check /livez instead of /readyz
  --config FILE    the gateway's file, for the admin port (default: 127.0.0.1:8081, or ONCEWAY_ADMIN_HOST and _PORT)
  --url URL        address of the admin port, instead of the file's
${TLS_HELP}

With admin.tls in the file and without --ca-file, the certificate is not verified: no secret is sent.

examples:
  onceway healthcheck
  onceway healthcheck --live --url http://127.0.0.1:9001`,
  run: checkHealth
}

async function checkHealth (args: readonly string[], { env, out, err }: Terminal): Promise<number> {
  const options = readOptions(args, { ...CONFIG_OPTIONS, ...TLS_OPTIONS, live: { type: 'boolean' }, url: { type: 'string' } })
  const asked = textOption(options, 'url')
  const url = new URL(options.values.live === true ? '/livez' : '/readyz', adminUrl(options, env))
  const given = clientTls(options)
  const tls = asked === undefined && given.ca === undefined ? { ...given, rejectUnauthorized: false } : given
  try {
    const { status, text } = await adminRequest(url, { withinMs: ANSWER_WITHIN_MS, tls })
    const ok = status === HTTP_OK
    if (ok) out(text.trim())
    else err(text.trim())
    return ok ? 0 : 1
  } catch (error) {
    const { code = (error as Error).name } = error as NodeJS.ErrnoException
    err(`onceway: no answer from ${url.href} (${code}).${hint(url, code, tls)}`)
    return 1
  }
}

/** A listener of TLS that a client does not suit closes the connection, and says no more than that. */
function hint ({ protocol }: URL, code: string, { cert }: ClientTls): string {
  if (code !== 'ECONNRESET' && !code.startsWith('ERR_SSL_')) return ''
  if (protocol === 'http:') return ' If the admin port has TLS, write https://.'
  return cert === undefined ? ' If it asks for client certificates, give --cert-file and --key-file.' : ''
}

function adminUrl (options: Options, env: Terminal['env']): string {
  const url = textOption(options, 'url')
  if (url !== undefined && (!URL.canParse(url) || !/^https?:/.test(url))) {
    throw new StartError('--url must be http://host:port or https://host:port.', 2)
  }
  if (url !== undefined) return url
  const { host, port, tls } = configFor(options, env).admin
  return reachable(`${tls === null ? 'http' : 'https'}://${hostInUrl(host)}:${port}`)
}
