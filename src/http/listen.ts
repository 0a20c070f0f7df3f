/** Starts to listen, or says in one sentence why it cannot. */
import type { AddressInfo } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { StartError } from '../errors.ts'

/** `what`: of which listener the sentence speaks. Resolves with the URL to go to. @throws StartError (exit 1). */
export async function listen (server: FastifyInstance, { host, port }: { readonly host: string, readonly port: number }, what: 'admin' | 'guarded'): Promise<string> {
  try {
    await server.listen({ host, port })
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EADDRINUSE') throw new StartError(`port ${port} on ${host} is in use by another process; choose another for the ${what} listener`, 1, error)
    if (code === 'EACCES') throw new StartError(`port ${port} on ${host} needs more rights than this process has; choose another for the ${what} listener`, 1, error)
    throw new StartError(`the ${what} listener cannot listen on ${host}:${port}: ${error instanceof Error ? error.message : String(error)}`, 1, error)
  }
  const { address, port: boundPort } = server.server.address() as AddressInfo
  return `http://${shownHost(address)}:${boundPort}`
}

/** 0.0.0.0 is where it listens, not where one goes. */
function shownHost (address: string): string {
  if (address === '0.0.0.0' || address === '::') return '127.0.0.1'
  return address.includes(':') ? `[${address}]` : address
}
