/** Who stands at the other end of the connection, and whether what it forwards is believed (`trustProxies`). */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { Socket } from 'node:net'
import type { TLSSocket } from 'node:tls'
import { headerLines } from '../../core/headers/lines.ts'
import type { Forwarded } from '../../core/forward/forwarding.ts'
import { plainAddress } from '../../core/headers/host.ts'

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
    const address = addressOf(raw.socket.remoteAddress)
    return {
      for: address,
      proto: 'encrypted' in raw.socket ? 'https' : 'http',
      host: raw.headers.host ?? null,
      trusted: this.#trusts(address)
    }
  }

  /**
   * In whose share a request counts: its client's address, of IPv6 the network that a client has to itself. Behind trusted proxies the
   * last one in X-Forwarded-For that is none of them. null: they do not say, and a proxy has no share of its own.
   */
  peerOf ({ socket, rawHeaders }: Pick<IncomingMessage, 'socket' | 'rawHeaders'>): string | null {
    const address = addressOf(socket.remoteAddress)
    if (!this.#trusts(address)) return networkOf(address)
    const hops = headerLines(rawHeaders, 'x-forwarded-for').flatMap((line) => line.split(','))
    for (const hop of hops.toReversed()) {
      const hopAddress = plainAddress(withoutPort(hop.trim()))
      if (isIP(hopAddress) === 0) return null
      if (!this.#trusts(hopAddress)) return networkOf(hopAddress)
    }
    return null
  }

  /** The same of a connection, before anything is said on it. */
  connectedFrom ({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string | null {
    const address = addressOf(remoteAddress)
    return this.#trusts(address) ? null : networkOf(address)
  }

  #trusts (address: string): boolean {
    return this.#any && isIP(address) !== 0 && this.#trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  }
}

/** As some proxies write it, with the port that the client came from. */
function withoutPort (text: string): string {
  return /^\[([^\]]+)\](?::[0-9]+)?$/.exec(text)?.[1] ?? /^([0-9.]+):[0-9]+$/.exec(text)?.[1] ?? text
}

const IPV6_GROUPS = 8
/** A provider gives each of its customers no less than that: whoever has one address has 2^64. */
const IPV6_NETWORK_GROUPS = 4

function networkOf (address: string): string {
  if (!address.includes(':')) return address
  const [text = ''] = address.split('%')
  const [head = '', tail = ''] = text.split('::')
  const [first, last] = [head, tail].map((part) => part === '' ? [] : part.split(':')) as [string[], string[]]
  const groups = [...first, ...Array<string>(Math.max(0, IPV6_GROUPS - first.length - last.length)).fill('0'), ...last]
  return `${groups.slice(0, IPV6_NETWORK_GROUPS).map((group) => parseInt(group, 16).toString(16)).join(':')}::/64`
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

/** A dual-stack listener shows IPv4 peers as ::ffff:a.b.c.d; everything else has one spelling there. */
function addressOf (address = ''): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address
}
