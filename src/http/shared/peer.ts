/** The address of a client, and whether its forwarded fields are believed (`trustProxies`). */
import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'
import type { Socket } from 'node:net'
import { headerLines } from '../../core/headers/lines.ts'
import type { Forwarded } from '../../core/forward/forwarding.ts'
import { plainAddress } from '../../core/headers/host.ts'
import { forwardedCertificateOf } from './client-certificate.ts'

export class PeerTrust {
  readonly #trusted = new BlockList()
  readonly #any: boolean

  /** Addresses and CIDR blocks. The configuration has checked them. */
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
    const isEncrypted = 'encrypted' in raw.socket
    const certificate = isEncrypted ? forwardedCertificateOf(raw) : undefined
    const proto = isEncrypted ? 'https' : 'http'
    const host = raw.headers.host ?? null
    const trusted = this.trusts(address)
    return certificate === undefined ? { for: address, proto, host, trusted } : { for: address, proto, host, trusted, certificate }
  }

  /**
   * The address in whose share a request counts. For IPv6 it is the network of one customer. Behind trusted proxies it
   * is the last address in X-Forwarded-For that is not a trusted proxy. null: there is none, and a proxy has no share
   * of its own.
   */
  peerOf ({ socket, rawHeaders }: Pick<IncomingMessage, 'socket' | 'rawHeaders'>): string | null {
    const address = addressOf(socket.remoteAddress)
    if (!this.trusts(address)) return networkOf(address)
    const hops = headerLines(rawHeaders, 'x-forwarded-for').flatMap((line) => line.split(','))
    for (const hop of hops.toReversed()) {
      const hopAddress = plainAddress(withoutPort(hop.trim()))
      if (isIP(hopAddress) === 0) return null
      if (!this.trusts(hopAddress)) return networkOf(hopAddress)
    }
    return null
  }

  /** The same for a connection before its first request. */
  connectedFrom ({ remoteAddress }: Pick<Socket, 'remoteAddress'>): string | null {
    const address = addressOf(remoteAddress)
    return this.trusts(address) ? null : networkOf(address)
  }

  /** An address of the socket. */
  trusts (address: string): boolean {
    return this.#any && isIP(address) !== 0 && this.#trusted.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  }
}

/** Some proxies add the client's port. */
function withoutPort (text: string): string {
  return /^\[([^\]]+)\](?::[0-9]+)?$/.exec(text)?.[1] ?? /^([0-9.]+):[0-9]+$/.exec(text)?.[1] ?? text
}

const IPV6_GROUPS = 8
/** Providers give each customer at least a /64. One customer then has 2^64 addresses. */
const IPV6_NETWORK_GROUPS = 4

function networkOf (address: string): string {
  if (!address.includes(':')) return address
  const [text = ''] = address.split('%')
  const [head = '', tail = ''] = text.split('::')
  const [first, last] = [head, tail].map((part) => part === '' ? [] : part.split(':')) as [string[], string[]]
  const groups = [...first, ...Array<string>(Math.max(0, IPV6_GROUPS - first.length - last.length)).fill('0'), ...last]
  return `${groups.slice(0, IPV6_NETWORK_GROUPS).map((group) => parseInt(group, 16).toString(16)).join(':')}::/64`
}

/** A dual-stack listener shows IPv4 peers as ::ffff:a.b.c.d. All other addresses have one spelling. */
function addressOf (address = ''): string {
  return address.startsWith('::ffff:') ? address.slice('::ffff:'.length) : address
}
