/** The consumer: it answers each message as the message says, and remembers when each was taken. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** What the consumer answers. `healthy`: 200. */
export type Kind = 'healthy' | 'too-many' | 'bad-request' | 'broken'

export interface Sent { readonly id: string, readonly kind: Kind, readonly tenant?: string, readonly group?: string }

export interface Consumer {
  readonly url: string
  /** When each healthy message was taken, by its id. Milliseconds of `performance.now()`. */
  readonly taken: ReadonlyMap<string, number>
  /** How long the consumer works on a message. */
  workMs: number
  readonly stop: () => void
}

const ANSWERS: Readonly<Record<Kind, { readonly status: number, readonly headers: Readonly<Record<string, string>> }>> = {
  healthy: { status: 200, headers: {} },
  'too-many': { status: 429, headers: { 'Retry-After': '20' } },
  'bad-request': { status: 400, headers: {} },
  broken: { status: 500, headers: {} }
}

export async function startConsumer (): Promise<Consumer> {
  const taken = new Map<string, number>()
  const server = createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => { pieces.push(piece) })
    request.on('end', () => {
      const { id, kind } = JSON.parse(Buffer.concat(pieces).toString()) as Sent
      const { status, headers } = ANSWERS[kind]
      const answer = (): void => {
        if (kind === 'healthy' && !taken.has(id)) taken.set(id, performance.now())
        response.writeHead(status, headers).end()
      }
      // A refusal is prompt, as a validation's.
      if (consumer.workMs === 0 || kind !== 'healthy') answer()
      else setTimeout(answer, consumer.workMs)
    })
  })
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const consumer: Consumer = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    taken,
    workMs: 0,
    stop () {
      server.close()
      server.closeAllConnections()
    }
  }
  return consumer
}
