/**
 * The network of a run: all its links, in a process of their own, so that clients and checks do not slow them down.
 * Records when each request to the upstream arrived here. A request that is held up here counts as sent (I2).
 */
import { appendFileSync, writeFileSync } from 'node:fs'
import { servePart } from './child.ts'
import { Link } from './proxy.ts'
import type { Direction } from './proxy.ts'
import { stampOf } from './stamps.ts'

const [stampsFile = ''] = process.argv.slice(2)
writeFileSync(stampsFile, '')

const links = new Map<string, Link>()
let stamps: string[] = []
/** Stamps are written now and then, not one by one. */
const FLUSH_MS = 200

function flush (): void {
  if (stamps.length === 0) return
  appendFileSync(stampsFile, stamps.join(''))
  stamps = []
}
setInterval(flush, FLUSH_MS).unref()

function linkNamed (name: string): Link {
  const link = links.get(name)
  if (link === undefined) throw new Error(`there is no link ${name}`)
  return link
}

const operations = {
  /** Resolves to its port. `from`: the gateway whose requests are stamped, if any. */
  open: async (name: string, target: number | null, from: string | null): Promise<number> => {
    const onUp = (chunk: Buffer): void => {
      const stamp = stampOf(chunk, Date.now(), from ?? '')
      if (stamp !== null) stamps.push(`${JSON.stringify(stamp)}\n`)
    }
    const link = new Link({ target, ...from === null ? {} : { onUp } })
    links.set(name, link)
    await link.listen()
    return link.port
  },
  aim: (name: string, target: number | null) => { linkNamed(name).aim(target) },
  refuse: async (name: string) => { await linkNamed(name).refuse() },
  listen: async (name: string) => { await linkNamed(name).listen() },
  delay: (name: string, ms: number) => { linkNamed(name).delay(ms) },
  hold: (name: string) => { linkNamed(name).hold() },
  release: (name: string) => { linkNamed(name).release() },
  cut: (name: string, share: number) => { linkNamed(name).cut(share) },
  halfClose: (name: string, direction: Direction, share: number) => { linkNamed(name).halfClose(direction, share) },
  late: (name: string, share: number, cutAfterMs: number, deliverAfterMs: number) => {
    linkNamed(name).late(share, cutAfterMs, deliverAfterMs)
  },
  flush
}

export type Network = typeof operations

servePart(operations)
