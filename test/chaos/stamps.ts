/** When a request to the upstream left its gateway: read off the first bytes that come by, whatever becomes of them later. */

/** `attempt` 0: nobody counts them (mode drop). */
export interface Stamp {
  readonly atMs: number
  readonly call: string
  /** Empty: nobody named it (mode drop). */
  readonly record: string
  readonly attempt: number
  readonly from: string
}

const HEAD_END = '\r\n\r\n'

/** null: no request begins here. A gateway writes a head in one piece, and nothing before it is answered. */
export function stampOf (chunk: Buffer, atMs: number, from: string): Stamp | null {
  if (!METHODS.some((method) => chunk.subarray(0, method.length).equals(method))) return null
  const end = chunk.indexOf(HEAD_END)
  const head = chunk.subarray(0, end === -1 ? chunk.length : end).toString('latin1')
  const call = /\r\nx-request-id: *([^\r]+)/i.exec(head)?.[1]
  const record = /\r\nonceway-key: *([^\r]+)/i.exec(head)?.[1] ?? ''
  const attempt = /\r\nidempotency-attempt: *(\d+)/i.exec(head)?.[1]
  return call === undefined ? null : { atMs, call, record, attempt: Number(attempt ?? 0), from }
}

const METHODS = [Buffer.from('POST '), Buffer.from('PATCH ')]
