/**
 * TLS at a listener. The certificate is replaced while connections stay open. What fails before a connection speaks HTTP is counted, and
 * logged as counts: anybody can cause it, thousands of times.
 */
import { constants, X509Certificate } from 'node:crypto'
import { createServer as createHttpsServer } from 'node:https'
import type { RequestListener, Server, ServerOptions } from 'node:http'
import type { Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import type { SecureContextOptions, TLSSocket } from 'node:tls'
import type { HandshakeFault } from '../../ports/telemetry.ts'
import { Authorities, readClientCertificate } from '../shared/client-certificate.ts'

/** The TLS of a listener, as its process knows it. */
export interface ListenerTls {
  readonly clientCertificates: 'required' | 'optional' | null
  /** The files as they were read last. */
  readonly context: () => Required<Pick<SecureContextOptions, 'cert' | 'key' | 'minVersion'>> & { readonly ca: readonly string[] }
  /** `take` is called when {@link context} has changed. It may throw. */
  readonly onChange: (take: () => void) => void
  readonly failed: (fault: HandshakeFault, code: string) => void
}

/** A handshake takes a few round trips. A client that sends nothing has a place among limits.connections for as long. */
const HANDSHAKE_WITHIN_MS = 10_000

/** Does not listen yet. */
export function createTlsServer (options: ServerOptions, tls: ListenerTls, listener: RequestListener): Server {
  const { clientCertificates } = tls
  const { authorities: first, ...context } = contextOf(tls)
  let authorities = first
  const server = createHttpsServer({
    ...options,
    ...context,
    // What else a client may choose is decided with HTTP/2.
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: HANDSHAKE_WITHIN_MS,
    requestCert: clientCertificates !== null,
    // OpenSSL tells a client that shows none. `optional` is checked below.
    rejectUnauthorized: clientCertificates === 'required'
  }, listener)
  tls.onChange(() => {
    const { authorities: nextAuthorities, ...next } = contextOf(tls)
    server.setSecureContext(next)
    authorities = nextAuthorities
  })
  server.prependListener('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    const code = errorText(socket.authorizationError) ?? error.code ?? 'unknown'
    tls.failed(faultOf(error.code, errorText(socket.authorizationError)), code)
    // There is no answer that such a client could read.
    socket.destroy()
  })
  if (clientCertificates !== null) readCertificates(server, tls, () => authorities)
  return server
}

function contextOf (tls: ListenerTls): SecureContextOptions & { readonly authorities: Authorities } {
  const { ca, ...rest } = tls.context()
  return {
    ...rest,
    ca: [...ca],
    authorities: new Authorities(ca.map((pem) => new X509Certificate(pem))),
    secureOptions: tls.clientCertificates === null ? 0 : FULL_HANDSHAKES
  }
}

/** Each connection verifies its certificate. A resumed session would be believed after its authority was removed. */
const FULL_HANDSHAKES = constants.SSL_OP_NO_TICKET | constants.SSL_OP_NO_RENEGOTIATION

function readCertificates (server: TlsServer, tls: ListenerTls, authorities: () => Authorities): void {
  // Before Node hands the connection to HTTP.
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    if (!socket.authorized && socket.getPeerX509Certificate() !== undefined) {
      tls.failed('certificate-refused', errorText(socket.authorizationError) ?? 'unknown')
      socket.destroy()
      return
    }
    readClientCertificate(socket, authorities())
  })
}

/** Its type says Error, and Node sets the code. */
function errorText (error: unknown): string | null {
  if (typeof error === 'string') return error
  return error instanceof Error ? error.message : null
}

function faultOf (code: string | undefined, authorizationError: string | null): HandshakeFault {
  if (authorizationError !== null) return 'certificate-refused'
  switch (code) {
    case 'ECONNRESET': return 'closed'
    case 'ERR_TLS_HANDSHAKE_TIMEOUT': return 'timeout'
    case 'ERR_SSL_HTTP_REQUEST': return 'plain-http'
    case 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE': return 'certificate-missing'
    case 'ERR_SSL_UNSUPPORTED_PROTOCOL':
    case 'ERR_SSL_VERSION_TOO_LOW':
    case 'ERR_SSL_NO_SHARED_CIPHER':
    case 'ERR_SSL_NO_APPLICATION_PROTOCOL': return 'protocol'
    default: return 'other'
  }
}

/** The event of a server with the sockets on which HTTP is spoken. */
export function connectionEvent (server: Server): 'connection' | 'secureConnection' {
  return server instanceof TlsServer ? 'secureConnection' : 'connection'
}

/** Connections whose handshake is not over. They have no request yet, so a drain may end them. */
export class Handshakes {
  readonly #pending = new Map<string, Socket>()

  watch (server: Server): void {
    if (!(server instanceof TlsServer)) return
    server.on('connection', (socket: Socket) => {
      const name = nameOf(socket)
      this.#pending.set(name, socket)
      socket.once('close', () => { if (this.#pending.get(name) === socket) this.#pending.delete(name) })
    })
    server.on('secureConnection', (socket: TLSSocket) => { this.#pending.delete(nameOf(socket)) })
  }

  end (): void {
    for (const socket of this.#pending.values()) socket.destroy()
  }
}

/** The socket below TLS and the one above have the same addresses, and Node shows no other relation. */
function nameOf ({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`
}
