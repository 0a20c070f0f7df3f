/** Starts a listener, or explains in one sentence why that failed. */
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { connectionEvent } from './connection/tls.ts'
import { StartError } from '../ports/errors.ts'

/** The name of each listener in that sentence, and the settings that change its port. */
const LISTENERS = {
  guarded: { name: 'the guarded listener', settings: '--port, ONCEWAY_LISTEN_PORT or listen.port' },
  admin: { name: 'the admin port', settings: '--admin-port, ONCEWAY_ADMIN_PORT or admin.port' }
} as const

/**
 * `what` selects the listener in the sentence. `inherited`: a descriptor that counts instead of host and port. Resolves with the bound
 * URL ({@link reachable}). @throws StartError (exit 1).
 */
export async function listen (
  server: FastifyInstance,
  { host, port }: { readonly host: string, readonly port: number },
  what: keyof typeof LISTENERS,
  inherited: number | null = null
): Promise<string> {
  const { name, settings } = LISTENERS[what]
  try {
    // Node takes a descriptor before it looks at a port. Fastify's types do not have it.
    await server.listen(inherited === null ? { host, port } : { host, port, fd: inherited } as object)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (inherited !== null) throw cannotInherit(name, inherited, code ?? String(error), error)
    if (code === 'EADDRINUSE') {
      throw new StartError(`port ${port} on ${host} is in use by another process; choose another for ${name} with ${settings}`, 1, error)
    }
    if (code === 'EACCES') {
      throw new StartError(
        `port ${port} on ${host} needs more rights than this process has; choose another for ${name} with ${settings}`,
        1,
        error
      )
    }
    throw new StartError(
      `${name} cannot listen on ${hostInUrl(host)}:${port}: ${error instanceof Error ? error.message : String(error)}`,
      1,
      error
    )
  }
  const bound = server.server.address() as AddressInfo | string
  if (typeof bound === 'string') throw cannotInherit(name, inherited, 'it is no TCP socket')
  const { address, port: boundPort } = bound
  return `${connectionEvent(server.server) === 'connection' ? 'http' : 'https'}://${hostInUrl(address)}:${boundPort}`
}

function cannotInherit (name: string, descriptor: number | null, why: string, cause?: unknown): StartError {
  return new StartError(`${name} cannot use the socket that the service manager hands over (descriptor ${descriptor}): ${why}`, 1, cause)
}

/** Turns an address to listen on into one to connect to on the same machine. */
export function reachable (url: string): string {
  return url.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, (_, scheme: string, host: string) =>
    `${scheme}${host === '[::]' ? '[::1]' : '127.0.0.1'}`)
}

export function hostInUrl (host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
