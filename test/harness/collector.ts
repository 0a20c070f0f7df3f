/** A collector of traces (OTLP over HTTP with protobuf): what the gateway sends is read from the wire, by the field numbers of OTLP 1.x. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface CollectedSpan {
  readonly traceId: string
  readonly spanId: string
  /** Empty: it has none. */
  readonly parentSpanId: string
  readonly name: string
  readonly kind: number
  readonly startNs: bigint
  readonly endNs: bigint
  readonly attributes: Readonly<Record<string, string | number>>
  readonly links: ReadonlyArray<{ readonly traceId: string, readonly spanId: string }>
  readonly isError: boolean
  readonly resource: Readonly<Record<string, string | number>>
}

export interface Collector {
  readonly url: string
  readonly spans: CollectedSpan[]
  readonly requests: Array<{ readonly path: string, readonly headers: IncomingHttpHeaders, readonly body: Buffer }>
  /** The status of its answers from now on. */
  status: number
  close: () => Promise<void>
}

export async function startCollector (): Promise<Collector> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const body = Buffer.concat(chunks)
      collector.requests.push({ path: request.url ?? '', headers: request.headers, body })
      if (collector.status === 200) collector.spans.push(...readSpans(body))
      response.writeHead(collector.status, { 'Content-Type': 'application/x-protobuf' }).end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const collector: Collector = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: [],
    requests: [],
    status: 200,
    close: async () => {
      server.closeAllConnections()
      server.close()
      if (server.listening) await once(server, 'close')
    }
  }
  return collector
}

// ---------------------------------------------------------------- the wire format of protobuf

type Value = bigint | Buffer

/** The fields of a message, by number. */
function fieldsOf (bytes: Buffer): Map<number, Value[]> {
  const fields = new Map<number, Value[]>()
  let at = 0
  const varint = (): bigint => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++)
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
  }
  while (at < bytes.length) {
    const tag = Number(varint())
    const value = valueOf(tag & 7)
    fields.set(tag >> 3, [...fields.get(tag >> 3) ?? [], value])
  }
  return fields

  function valueOf (type: number): Value {
    const from = at
    switch (type) {
      case 0: return varint()
      case 1:
        at += 8
        return bytes.readBigUInt64LE(from)
      case 2: {
        const length = Number(varint())
        at += length
        return bytes.subarray(at - length, at)
      }
      case 5:
        at += 4
        return BigInt(bytes.readUInt32LE(from))
      default: throw new Error(`wire type ${type}`)
    }
  }
}

type Message = Map<number, Value[]>

const messages = (message: Message, field: number): Message[] => (message.get(field) ?? []).map((value) => fieldsOf(value as Buffer))
const text = (message: Message, field: number): string => (message.get(field)?.[0] as Buffer | undefined)?.toString('utf8') ?? ''
const hex = (message: Message, field: number): string => (message.get(field)?.[0] as Buffer | undefined)?.toString('hex') ?? ''
const number = (message: Message, field: number): bigint => (message.get(field)?.[0] as bigint | undefined) ?? 0n

function readSpans (body: Buffer): CollectedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((resourceSpans) => {
    const resource = Object.assign({}, ...messages(resourceSpans, 1).map((each) => attributesOf(each, 1))) as CollectedSpan['resource']
    return messages(resourceSpans, 2).flatMap((scopeSpans) => messages(scopeSpans, 2).map((span) => spanOf(span, resource)))
  })
}

function spanOf (span: Message, resource: CollectedSpan['resource']): CollectedSpan {
  return {
    traceId: hex(span, 1),
    spanId: hex(span, 2),
    parentSpanId: hex(span, 4),
    name: text(span, 5),
    kind: Number(number(span, 6)),
    startNs: number(span, 7),
    endNs: number(span, 8),
    attributes: attributesOf(span, 9),
    links: messages(span, 13).map((link) => ({ traceId: hex(link, 1), spanId: hex(link, 2) })),
    isError: messages(span, 15).some((status) => number(status, 3) === 2n),
    resource
  }
}

function attributesOf (message: Message, field: number): Record<string, string | number> {
  return Object.fromEntries(messages(message, field).map((pair) => {
    const [value] = messages(pair, 2) as [Message]
    return [text(pair, 1), value.has(1) ? text(value, 1) : Number(number(value, 3))]
  }))
}
