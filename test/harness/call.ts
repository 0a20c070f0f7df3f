/** One HTTP request with exactly the header lines that are given, and the whole answer. No keep-alive, no retries. */
import { request as httpRequest } from 'node:http'
import type { Agent, IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { SecureContextOptions } from 'node:tls'
import { connect } from 'node:net'

export interface Called {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly rawHeaders: readonly string[]
  readonly body: Buffer
  readonly text: string
  readonly json: any // eslint-disable-line @typescript-eslint/no-explicit-any -- tests look into answers freely
}

export interface CallOptions {
  readonly method?: string
  /** Name and value lines in order, or an object. */
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string | Buffer
  readonly signal?: AbortSignal
  /** For requests that share connections. */
  readonly agent?: Agent
  /** For https: the authority, and the client's certificate. */
  readonly tls?: Pick<SecureContextOptions, 'ca' | 'cert' | 'key' | 'maxVersion'>
}

export async function call (base: string, path: string, options: CallOptions = {}): Promise<Called> {
  const url = new URL(base)
  return new Promise<Called>((resolve, reject) => {
    const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)({
      ...options.tls,
      host: url.hostname,
      port: url.port,
      path,
      method: options.method ?? 'POST',
      headers: { ...options.headers } as Record<string, string | string[]>,
      agent: options.agent ?? false,
      ...(options.signal === undefined ? {} : { signal: options.signal })
    }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => { resolve(calledOf(response, Buffer.concat(chunks))) })
    })
    request.on('error', reject)
    request.end(options.body)
  })
}

function calledOf (response: IncomingMessage, body: Buffer): Called {
  const text = body.toString('utf8')
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    rawHeaders: response.rawHeaders,
    body,
    text,
    get json () { return JSON.parse(text) as unknown }
  }
}

/** Writes these bytes to a connection and reads until the other side closes it. */
export async function callRaw (base: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(base)
  const socket = connect({ host: hostname, port: Number(port) })
  socket.on('error', () => {})
  socket.write(bytes, 'latin1')
  let answer = ''
  for await (const chunk of socket as AsyncIterable<Buffer>) answer += chunk.toString('latin1')
  return answer
}
