/** Starts to listen, or says in one sentence why it cannot. */
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { StartError } from '../ports/errors.ts'

/** What the sentence calls each listener, and what gives it another port. */
const LISTENERS = {
  guarded: { name: 'the guarded listener', settings: '--port, ONCEWAY_LISTEN_PORT or listen.port' },
  admin: { name: 'the admin port', settings: '--admin-port, ONCEWAY_ADMIN_PORT or admin.port' }
} as const

/** `what`: of which listener the sentence speaks. Resolves with the URL that is bound ({@link reachable}). @throws StartError (exit 1). */
export async function listen (
  server: FastifyInstance,
  { host, port }: { readonly host: string, readonly port: number },
  what: keyof typeof LISTENERS
): Promise<string> {
  const { name, settings } = LISTENERS[what]
  try {
    await server.listen({ host, port })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
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
  return `http://${hostInUrl(address)}:${boundPort}`
}

/** An address to listen on as one to connect to, on the same machine. */
export function reachable (url: string): string {
  return url.replace(/^http:\/\/(0\.0\.0\.0|\[::\])(?=:)/, (_, host: string) => `http://${host === '[::]' ? '[::1]' : '127.0.0.1'}`)
}

export function hostInUrl (host: string): string {
  return host.includes(':') ? `[${host}]` : host
}
