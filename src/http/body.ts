/**
 * Reads a guarded request's body in full before anything is claimed (E0), within a size, a budget and a time. Gives back
 * what it reserved when the body does not come to be.
 */
import type { IncomingMessage } from 'node:http'
import { Gathering } from '../core/gathering.ts'
import type { BodyResult } from '../gateway/admission.ts'
import type { Clock } from '../ports.ts'

/** A body must be whole by then: 8 MiB in a minute is 1.1 Mbit/s, slower than any client worth waiting for. */
export const BODY_TIMEOUT_MS = 60_000

export interface BodyBounds {
  readonly bytesMax: number
  readonly reserve: (bytes: number) => boolean
  readonly release: (bytes: number) => void
  readonly timeoutMs: number
  readonly clock: Clock
}

/** `begin`: the declared size is no reason to refuse it; a client that asked may send. */
export async function readBody (raw: IncomingMessage, begin: () => void, { bytesMax, reserve, release, timeoutMs, clock }: BodyBounds): Promise<BodyResult> {
  const declared = raw.headers['content-length']
  if (declared !== undefined && Number(declared) > bytesMax) return { kind: 'too-large' }
  // Gone while its credential was looked at: 'close' does not come again.
  if (raw.destroyed && !raw.complete) return { kind: 'gone' }
  begin()
  const body = new Gathering(bytesMax, reserve)
  let over = false
  const { promise, resolve } = Promise.withResolvers<BodyResult>()
  const fail = (kind: Exclude<BodyResult['kind'], 'body'>): void => {
    // 'close' follows 'end' in the same tick, before whoever awaits the body: what is over cannot fail.
    if (over) return
    over = true
    raw.off('data', onData)
    release(body.held)
    resolve({ kind })
  }
  const onData = (chunk: Buffer): void => {
    const added = body.add(chunk)
    if (added !== 'taken') fail(added === 'large' ? 'too-large' : 'no-room')
  }
  const onEnd = (): void => {
    if (over) return
    over = true
    resolve({ kind: 'body', body: body.whole(), heldBytes: body.held })
  }
  const onGone = (): void => fail('gone')
  const cancelTimer = clock.after(timeoutMs, () => { fail('too-slow') })
  raw.on('data', onData)
  raw.on('end', onEnd)
  raw.on('error', onGone)
  raw.on('close', onGone)
  const result = await promise
  // The listeners go with the request: what is over hears nothing, and taking them off one by one costs more than they do.
  cancelTimer()
  return result
}
