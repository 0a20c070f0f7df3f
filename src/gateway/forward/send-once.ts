/** One sending to an upstream, for whoever waits for it: within the upstream's timeout, its answer's bytes counted in the buffers. */
import type { RawHeaders } from '../../core/record/record.ts'
import type { Sending, SendingListener, SentRequest, UpstreamResult } from '../../ports/upstream.ts'
import type { Limits } from '../limits/limits.ts'
import type { Deps } from '../shared/deps.ts'
import { UpstreamTime } from './upstream-time.ts'

export interface SendContext {
  readonly deps: Deps
  readonly limits: Limits
}

export interface OneSending {
  readonly sending: Sending
  /** Never rejects. */
  readonly result: Promise<UpstreamResult>
  /** Ends the timeout. Until then it also cuts off a stream that is still being read. */
  readonly endTimeout: () => void
  /** Gives back the answer's bytes. */
  readonly release: () => void
}

/** What a sender wants to hear, see {@link SendingListener}. Only `maySend` is asked for. */
export type SendHooks = Pick<SendingListener, 'maySend'> & Partial<Pick<SendingListener, 'placed' | 'informed'>>

export function sendOnce ({ deps: { clock, upstream }, limits }: SendContext, request: SentRequest, hooks: SendHooks): OneSending {
  const { holder } = request
  const time = new UpstreamTime(clock, request.upstream)
  const { promise, resolve } = Promise.withResolvers<UpstreamResult>()
  let bytes = 0
  const sending = upstream.start(request, {
    maySend: () => hooks.maySend(),
    placed: () => {
      time.begin()
      hooks.placed?.()
    },
    informed: (status: number, headers: RawHeaders) => { hooks.informed?.(status, headers) },
    reserve: (more) => {
      if (limits.buffered.take('answers', more, holder) !== null) return false
      bytes += more
      return true
    },
    ended: resolve
  })
  time.limit(sending)
  return {
    sending,
    result: promise,
    endTimeout: () => { time.end() },
    release: () => {
      limits.buffered.release('answers', bytes, holder)
      bytes = 0
    }
  }
}
