/** Requests of commands to the admin port of a gateway, with the options that its TLS may need. */
import { readFileSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { text } from 'node:stream/consumers'
import { areAuthorities } from '../config/certificates.ts'
import { StartError } from '../ports/errors.ts'
import { textOption } from './command.ts'
import type { Options } from './command.ts'

export const TLS_OPTIONS = { 'ca-file': { type: 'string' }, 'cert-file': { type: 'string' }, 'key-file': { type: 'string' } } as const

export const TLS_HELP = `  --ca-file F      authority (PEM) of an https:// URL, instead of those that Node trusts
  --cert-file F    client certificate (PEM), if the admin port requires one
  --key-file F     key (PEM) of the client certificate`

export interface ClientTls {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
  /** false: the certificate of the gateway is not verified. */
  readonly rejectUnauthorized?: boolean
}

/** @throws StartError: a file cannot be read, or one of two is missing. */
export function clientTls (options: Options): ClientTls {
  const [ca, cert, key] = (['ca-file', 'cert-file', 'key-file'] as const).map((name) => textOfFile(textOption(options, name)))
  if ((cert === undefined) !== (key === undefined)) throw new StartError('--cert-file and --key-file go together.', 2)
  // Node would trust nobody then, and name another reason.
  if (ca !== undefined && !areAuthorities(ca)) throw new StartError(`${textOption(options, 'ca-file')} is no certificate in PEM.`, 2)
  return { ...ca !== undefined && { ca }, ...cert !== undefined && { cert }, ...key !== undefined && { key } }
}

function textOfFile (file: string | undefined): string | undefined {
  if (file === undefined) return undefined
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new StartError(`${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`, 2, error)
  }
}

export interface AdminAnswer {
  readonly status: number
  readonly type: string
  readonly text: string
}

export interface AdminRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly withinMs: number
  readonly tls: ClientTls
}

/** Follows no redirect. */
export async function adminRequest (url: URL, { method = 'GET', headers = {}, body, withinMs, tls }: AdminRequest): Promise<AdminAnswer> {
  const signal = AbortSignal.timeout(withinMs)
  const options = { method, headers, signal, agent: false } as const
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      const sent = url.protocol === 'https:' ? httpsRequest(url, { ...options, ...tls }, resolve) : httpRequest(url, options, resolve)
      sent.on('error', reject)
      sent.end(body)
    })
    const { statusCode: status = 0, headers: { 'content-type': type = 'no content type' } } = response
    return { status, type, text: await text(response) }
  } catch (error) {
    throw signal.aborted ? signal.reason : error
  }
}
