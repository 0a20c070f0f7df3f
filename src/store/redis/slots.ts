/** The arithmetic of Redis Cluster: which of the 16384 slots a key is in, and what nodes say about slots. Pure. */
import type { Address } from './topology-options.ts'

export const SLOTS = 16_384

/** CRC16/XMODEM, a byte at a time. */
const TABLE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021
  return crc
})

/** The slot of an ASCII key. If there is text between the first braces, only that text counts. */
export function slotOf (key: string): number {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open)
  const [from, to] = close > open + 1 ? [open + 1, close] : [0, key.length]
  let crc = 0
  for (let at = from; at < to; at++) crc = ((crc << 8) & 0xffff) ^ (TABLE[(crc >> 8) ^ (key.charCodeAt(at) & 0xff)] as number)
  return crc % SLOTS
}

/** A node's reply about a key that is not its own (any more). Nothing was done there. `asking`: holds for this one command. */
export class Elsewhere {
  readonly slot: number
  /** If the host is empty, it is the node that replied. */
  readonly address: Address
  readonly asking: boolean

  constructor (slot: number, address: Address, asking: boolean) {
    this.slot = slot
    this.address = address
    this.asking = asking
  }
}

/** `MOVED 3999 127.0.0.1:6381`, `ASK 3999 [::1]:6381`. null: another error. */
export function elsewhereOf ({ message }: Error): Elsewhere | null {
  const found = /^(MOVED|ASK) ([0-9]+) (.*):([0-9]+)$/.exec(message)
  if (found === null) return null
  const [, kind, slot, host = '', port] = found
  return new Elsewhere(Number(slot), { host: host.replace(/^\[|\]$/g, ''), port: Number(port) }, kind === 'ASK')
}

/** The master of a run of slots. */
export interface Range extends Address { readonly from: number, readonly to: number }

/** From the reply to CLUSTER SLOTS. `host`: the node that was asked, for nodes that do not know their own address. */
export function rangesOf (reply: unknown, host: string): Range[] {
  if (!Array.isArray(reply)) return []
  return reply.flatMap((entry: unknown): Range[] => {
    if (!Array.isArray(entry) || !Array.isArray(entry[2])) return []
    const [from, to, [named, port]] = entry as [unknown, unknown, unknown[]]
    if (typeof from !== 'number' || typeof to !== 'number' || typeof port !== 'number' || named === '?') return []
    return [{ from, to, host: typeof named === 'string' && named !== '' ? named : host, port }]
  })
}
