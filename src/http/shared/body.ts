/**
 * Reads a guarded request's body in full before anything is claimed (E0), within a size, a budget and a time.
 */
import type { IncomingMessage } from 'node:http'
import { BodyBuffer } from '../../core/limits/body-buffer.ts'
import type { BodyResult } from '../../gateway/body/read-whole.ts'
import type { Clock } from '../../ports/clock.ts'

/** RFC 9112 6.3: framed by either field; nothing follows a length of zero. */
export function hasBody ({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Nothing of it is still to come. (Of a request without a body Node says so only after it was handed over.) */
export function isRead (raw: IncomingMessage): boolean {
  return raw.complete || !hasBody(raw)
}

export interface BodyBounds {
  readonly bytesMax: number
  /** Asked before bytes are held; false: there is no room. */
  readonly take: (bytes: number) => boolean
  readonly timeoutMs: number
  /** The longest that nothing more of it may come. */
  readonly idleMs: number
  readonly clock: Clock
}

/** `begin`: the declared size is no reason to refuse it; a client that asked may send. */
export async function readBody (
  raw: IncomingMessage,
  begin: () => void,
  { bytesMax, take, timeoutMs, idleMs, clock }: BodyBounds
): Promise<BodyResult> {
  const declared = raw.headers['content-length']
  if (declared !== undefined && Number(declared) > bytesMax) return { kind: 'too-large' }
  // Gone while its credential was looked at: 'close' does not come again.
  if (raw.destroyed && !raw.complete) return { kind: 'gone' }
  begin()
  const body = new BodyBuffer(bytesMax, take)
  let over = false
  const { promise, resolve } = Promise.withResolvers<BodyResult>()
  const fail = (kind: Exclude<BodyResult['kind'], 'body'>): void => {
    // 'close' follows 'end' in the same tick, before whoever awaits the body: what is over cannot fail.
    if (over) return
    over = true
    raw.off('data', onData)
    resolve({ kind })
  }
  const onData = (chunk: Buffer): void => {
    cameAtMs = clock.monotonicMs()
    const added = body.add(chunk)
    if (added !== 'taken') fail(added === 'large' ? 'too-large' : 'no-room')
  }
  const onEnd = (): void => {
    if (over) return
    over = true
    resolve({ kind: 'body', body: body.whole() })
  }
  const onGone = (): void => fail('gone')
  const startedAtMs = clock.monotonicMs()
  let cameAtMs = startedAtMs
  // One timer for both, and it looks: a body that comes in a thousand pieces does not set it a thousand times.
  const look = (): void => {
    const leftMs = Math.min(startedAtMs + timeoutMs, cameAtMs + idleMs) - clock.monotonicMs()
    if (leftMs <= 0) fail('too-slow')
    else cancelTimer = clock.after(leftMs, look)
  }
  let cancelTimer = clock.after(Math.min(timeoutMs, idleMs), look)
  raw.on('data', onData)
  raw.on('end', onEnd)
  raw.on('error', onGone)
  raw.on('close', onGone)
  const result = await promise
  // The listeners go with the request: what is over hears nothing, and taking them off one by one costs more than they do.
  cancelTimer()
  return result
}
