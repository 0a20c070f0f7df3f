/** When a request to the upstream left its gateway: read off the first bytes that come by, whatever becomes of them later. */

/** `attempt` 0: nobody counts them (mode drop). */
export interface Stamp { readonly atMs: number, readonly call: string, readonly attempt: number, readonly from: string }

const HEAD_END = '\r\n\r\n'

/** null: no request begins here. A gateway writes a head in one piece, and nothing before it is answered. */
export function stampOf (chunk: Buffer, atMs: number, from: string): Stamp | null {
  if (!chunk.subarray(0, METHOD.length).equals(METHOD)) return null
  const end = chunk.indexOf(HEAD_END)
  const head = chunk.subarray(0, end === -1 ? chunk.length : end).toString('latin1')
  const call = /\r\nx-request-id: *([^\r]+)/i.exec(head)?.[1]
  const attempt = /\r\nidempotency-attempt: *(\d+)/i.exec(head)?.[1]
  return call === undefined ? null : { atMs, call, attempt: Number(attempt ?? 0), from }
}

const METHOD = Buffer.from('POST ')
