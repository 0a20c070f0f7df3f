/** Who stands at the other end of the connection, and whether what it forwards is believed (`trustProxies`). */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import type { Forwarded } from '../core/headers.ts'

export class PeerTrust {
  readonly #trusted = new BlockList()
  readonly #any: boolean

  /** Addresses and CIDR blocks, checked by the configuration. */
  constructor (proxies: readonly string[]) {
    this.#any = proxies.length > 0
    for (const proxy of proxies) {
      const [address = '', bits] = proxy.split('/')
      const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
      if (bits === undefined) this.#trusted.addAddress(address, family)
      else this.#trusted.addSubnet(address, Number(bits), family)
    }
  }

  forwardedOf (raw: IncomingMessage): Forwarded {
    const address = plainAddress(raw.socket.remoteAddress ?? '')
    return {
      for: address,
      proto: 'encrypted' in raw.socket ? 'https' : 'http',
      host: raw.headers.host ?? null,
      trusted: this.#any && isIP(address) !== 0 && this.#trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
    }
  }
}

/** SHA-256 of the certificate that the connection showed and that was verified, read once for all of its requests; null: none. */
export function clientCertificateOf ({ socket }: IncomingMessage): string | null {
  if (!('encrypted' in socket)) return null
  const known = fingerprints.get(socket)
  if (known !== undefined) return known
  const tls = socket as TLSSocket
  const fingerprint = tls.authorized ? tls.getPeerX509Certificate()?.fingerprint256 ?? null : null
  fingerprints.set(socket, fingerprint)
  return fingerprint
}

const fingerprints = new WeakMap<Socket, string | null>()

/** A dual-stack listener shows IPv4 peers as ::ffff:a.b.c.d. */
function plainAddress (address: string): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address
}
