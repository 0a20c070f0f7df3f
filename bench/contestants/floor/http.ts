/** The door of the floors: node:http, the body in one piece, and answers that are written at the end of a turn. */
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** Longer than a run, so that no connection ends for its age in a turn. */
const KEEP_ALIVE_MS = 600_000
const NOTHING: Buffer = Buffer.alloc(0)

/** Says where it listens, as every contestant does. */
export function serve (handle: (request: IncomingMessage, response: ServerResponse, body: Buffer) => void): void {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => { pieces.push(piece) })
    request.on('end', () => { handle(request, response, joined(pieces)) })
  })
  server.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${(server.address() as AddressInfo).port}`) })
}

export function joined (pieces: readonly Buffer[]): Buffer {
  return pieces.length === 1 ? pieces[0] as Buffer : pieces.length === 0 ? NOTHING : Buffer.concat(pieces)
}

export interface Head { readonly forwarded: string[], readonly key: string, readonly caller: string }

/** One pass over the raw fields. `notForwarded`: lower-case names. */
export function headOf (rawHeaders: readonly string[], notForwarded: ReadonlySet<string>): Head {
  const forwarded: string[] = []
  let [key, caller] = ['', '']
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at] as string, rawHeaders[at + 1] as string]
    const lower = name.toLowerCase()
    if (notForwarded.has(lower)) continue
    if (lower === 'idempotency-key') key = value
    else if (lower === 'authorization') caller = value
    forwarded.push(name, value)
  }
  return { forwarded, key, caller }
}

interface Responding { readonly respond: () => void }

let leaving: Responding[] = []

/** Answers of one turn of the event loop are written together: each write alone would wake its reader alone. */
export function respondAtEndOfTurn (one: Responding): void {
  if (leaving.push(one) === 1) setImmediate(respondToAll)
}

function respondToAll (): void {
  const all = leaving
  leaving = []
  for (const one of all) one.respond()
}
