/** Addresses in a configuration: single ones, CIDR blocks, and those of this machine alone. */
import { BlockList, isIP, isIPv4 } from 'node:net'

/** Whether the text is an address or a CIDR block. */
export function isNetwork (text: string): boolean {
  const [address = '', bits, ...rest] = text.split('/')
  const family = isIP(address)
  if (family === 0 || rest.length > 0) return false
  if (bits === undefined) return true
  try {
    new BlockList().addSubnet(address, /^[0-9]{1,3}$/.test(bits) ? Number(bits) : -1, family === 4 ? 'ipv4' : 'ipv6')
    return true
  } catch {
    return false
  }
}

/** Whether only this machine reaches the host. `host`: a name or an address, without a port. */
export function isLoopback (host: string): boolean {
  const plain = host.toLowerCase().replace(/^\[|\]$/g, '').replace(/^::ffff:(?=[0-9.]+$)/, '')
  return plain === 'localhost' || plain === '::1' || (isIPv4(plain) && plain.startsWith('127.'))
}
