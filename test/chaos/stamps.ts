/** When a request left its gateway for the upstream: taken from its first bytes, whatever happens to them later. */

/** `attempt` 0: attempts are not counted (mode drop). */
export interface Stamp {
  readonly atMs: number
  readonly call: string
  /** Empty: the request has no record (mode drop). */
  readonly record: string
  readonly attempt: number
  readonly from: string
  /** It has `Onceway-Replay: true`. */
  readonly replay?: true
}

const HEAD_END = '\r\n\r\n'

/** null: no request begins here. A gateway writes each head in one piece, and pipelines nothing. */
export function stampOf (chunk: Buffer, atMs: number, from: string): Stamp | null {
  if (!METHODS.some((method) => chunk.subarray(0, method.length).equals(method))) return null
  const end = chunk.indexOf(HEAD_END)
  const head = chunk.subarray(0, end === -1 ? chunk.length : end).toString('latin1')
  const call = /\r\nx-request-id: *([^\r]+)/i.exec(head)?.[1]
  const record = /\r\nonceway-key: *([^\r]+)/i.exec(head)?.[1] ?? ''
  const attempt = /\r\nidempotency-attempt: *(\d+)/i.exec(head)?.[1]
  const isReplay = /\r\nonceway-replay: *true\r/i.test(`${head}\r`)
  return call === undefined ? null : { atMs, call, record, attempt: Number(attempt ?? 0), from, ...isReplay && { replay: true } }
}

const METHODS = [Buffer.from('POST '), Buffer.from('PATCH ')]
