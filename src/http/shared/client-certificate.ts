/** The client certificates of TLS connections: read once, when a handshake is over. */
import { createHash, X509Certificate } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { DetailedPeerCertificate, TLSSocket } from 'node:tls'
import { certificateIdentity, forwardedCertificate } from '../../core/forward/client-certificate.ts'
import type { CertificateNames } from '../../core/forward/client-certificate.ts'

/** What a connection shows, if its listener asks for client certificates. */
interface Shown {
  /** For scopes. */
  readonly identity: string
  /** For the upstream. */
  readonly forwarded: string
}

/** null: the listener asks for a certificate, and the client has none. */
const shownBy = new WeakMap<object, Shown | null>()

/** For a listener that asks for client certificates. Call it with verified connections only. */
export function readClientCertificate (socket: TLSSocket, authorities: Authorities): void {
  const certificate = socket.getPeerX509Certificate()
  if (certificate === undefined) {
    shownBy.set(socket, null)
    return
  }
  const names = {
    fingerprint: certificate.fingerprint256.replaceAll(':', '').toLowerCase(),
    authority: authorities.rootOf(certificate, () => chainOf(socket)),
    issuer: nonEmpty(certificate.issuer),
    subject: nonEmpty(certificate.subject),
    alternatives: nonEmpty(certificate.subjectAltName)
  } satisfies CertificateNames
  shownBy.set(socket, { identity: certificateIdentity(names), forwarded: forwardedCertificate(names) })
}

/** The caller that the certificate of the connection names, as text. null: none. */
export function clientCertificateOf ({ socket }: Pick<IncomingMessage, 'socket'>): string | null {
  return shownBy.get(socket)?.identity ?? null
}

/** As the upstream gets it. null: none. undefined: the listener asks for none. */
export function forwardedCertificateOf ({ socket }: Pick<IncomingMessage, 'socket'>): string | null | undefined {
  const shown = shownBy.get(socket)
  return shown === null ? null : shown?.forwarded
}

function nonEmpty (text: string | undefined): string | null {
  return text === undefined || text === '' ? null : text
}

/** Longer than any chain in use. TLS has verified the chain, and here it is searched. */
const CHAIN_MAX = 8

/** The authorities that a listener trusts. */
export class Authorities {
  readonly #roots: ReadonlyArray<{ readonly certificate: X509Certificate, readonly key: string }>
  readonly #between: readonly X509Certificate[]
  constructor (certificates: readonly X509Certificate[]) {
    const [roots, between] = [certificates.filter(isRoot), certificates.filter((each) => !isRoot(each))]
    this.#roots = roots.map((certificate) => ({ certificate, key: keyOf(certificate) }))
    this.#between = between
  }

  /**
   * The key of the root that vouches for a certificate. It is a digest. Each step is verified by its signature, so another authority's
   * name is of no use. null: there is none.
   */
  rootOf (certificate: X509Certificate, chain: () => readonly X509Certificate[]): string | null {
    const direct = this.#search(certificate, this.#between, CHAIN_MAX)
    return direct ?? this.#search(certificate, [...this.#between, ...chain()], CHAIN_MAX)
  }

  #search (issued: X509Certificate, between: readonly X509Certificate[], steps: number): string | null {
    const root = this.#roots.find((each) => hasIssued(each.certificate, issued))
    if (root !== undefined) return root.key
    for (const issuer of steps === 0 ? [] : between) {
      if (!issuer.ca || !hasIssued(issuer, issued)) continue
      const found = this.#search(issuer, between.filter((each) => each !== issuer), steps - 1)
      if (found !== null) return found
    }
    return null
  }
}

function isRoot (certificate: X509Certificate): boolean { return certificate.checkIssued(certificate) }

function hasIssued (issuer: X509Certificate, issued: X509Certificate): boolean {
  return issued.checkIssued(issuer) && issued.verify(issuer.publicKey)
}

function keyOf ({ publicKey }: X509Certificate): string {
  return createHash('sha256').update(publicKey.export({ type: 'spki', format: 'der' })).digest('base64url')
}

/** The certificates that the client sent with its own. */
function chainOf (socket: TLSSocket): X509Certificate[] {
  const chain: X509Certificate[] = []
  const seen = new Set<string>()
  let each: DetailedPeerCertificate | undefined = socket.getPeerCertificate(true)
  while (each?.raw !== undefined && !seen.has(each.fingerprint256) && chain.length <= CHAIN_MAX) {
    seen.add(each.fingerprint256)
    chain.push(new X509Certificate(each.raw))
    each = each.issuerCertificate
  }
  return chain.slice(1)
}
