/** Starts a listener, or explains in one sentence why that failed. */
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { connectionEvent } from './connection/tls.ts'
import { isUnixSocket } from './inherited.ts'
import { StartError } from '../ports/errors.ts'

/** The name of each listener in that sentence, and the settings that change its port. */
const LISTENERS = {
  guarded: { name: 'the guarded listener', settings: '--port, ONCEWAY_LISTEN_PORT or listen.port' },
  admin: { name: 'the admin port', settings: '--admin-port, ONCEWAY_ADMIN_PORT or admin.port' }
} as const

/**
 * `what` selects the listener in the sentence. `inherited`: a descriptor that counts instead of host and port. Resolves with the bound
 * URL ({@link reachable}). @throws StartError.
 */
export async function listen (
  server: FastifyInstance,
  { host, port }: { readonly host: string, readonly port: number },
  what: keyof typeof LISTENERS,
  inherited: number | null = null
): Promise<string> {
  const { name, settings } = LISTENERS[what]
  if (inherited !== null) mustBeTcp(name, inherited)
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
  const { address, port: boundPort } = server.server.address() as AddressInfo
  return `${connectionEvent(server.server) === 'connection' ? 'http' : 'https'}://${hostInUrl(address)}:${boundPort}`
}

function mustBeTcp (name: string, descriptor: number): void {
  let isUnix: boolean
  try {
    isUnix = isUnixSocket(descriptor)
  } catch (error) {
    throw cannotInherit(name, descriptor, (error as NodeJS.ErrnoException).code ?? String(error), error)
  }
  if (isUnix) throw cannotInherit(name, descriptor, 'it is a Unix socket. Give ListenStream= a port.')
}

function cannotInherit (name: string, descriptor: number, why: string, cause?: unknown): StartError {
  return new StartError(`${name} cannot use the socket that the service manager hands over (descriptor ${descriptor}): ${why}`, 2, cause)
}

/** Turns an address to listen on into one to connect to on the same machine. */
export function reachable (url: string): string {
  return url.replace(/^(https?:\/\/)(0\.0\.0\.0|\[::\])(?=:)/, (_, scheme: string, host: string) =>
    `${scheme}${host === '[::]' ? '[::1]' : '127.0.0.1'}`)
}

export function hostInUrl (host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
