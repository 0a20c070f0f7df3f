/** Reads the whole body of a guarded request before anything is claimed (E0). Size, memory and time are limited. */
import type { IncomingMessage } from 'node:http'
import { BodyBuffer } from '../../core/limits/body-buffer.ts'
import type { BodyResult } from '../../gateway/body/read-whole.ts'
import type { Clock } from '../../ports/clock.ts'

/** RFC 9112 6.3: either field frames a body. A length of zero means none. */
export function hasBody ({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Nothing of the body is outstanding. For a request without a body Node sets `complete` only after the handler was called. */
export function isRead (raw: IncomingMessage): boolean {
  return raw.complete || !hasBody(raw)
}

export interface BodyBounds {
  readonly bytesMax: number
  /** Called before bytes are kept. false: there is no room. */
  readonly take: (bytes: number) => boolean
  readonly timeoutMs: number
  /** The longest pause of the client. */
  readonly idleMs: number
  readonly clock: Clock
}

/** `begin` is called once the declared size is accepted. A client that sent Expect: 100-continue may then send. */
export async function readBody (
  raw: IncomingMessage,
  begin: () => void,
  { bytesMax, take, timeoutMs, idleMs, clock }: BodyBounds
): Promise<BodyResult> {
  const declared = raw.headers['content-length']
  if (declared !== undefined && Number(declared) > bytesMax) return { kind: 'too-large' }
  // The client has gone while its credential was checked. 'close' is not emitted again.
  if (raw.destroyed && !raw.complete) return { kind: 'gone' }
  begin()
  const body = new BodyBuffer(bytesMax, take)
  let over = false
  const { promise, resolve } = Promise.withResolvers<BodyResult>()
  const fail = (kind: Exclude<BodyResult['kind'], 'body'>): void => {
    // 'close' follows 'end' in the same tick, before the caller gets the body. A complete body cannot fail.
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
  // One timer checks both limits. So a body of a thousand pieces does not set a thousand timers.
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
  // The listeners are collected with the request. To remove them one by one would cost more than they do.
  cancelTimer()
  return result
}
