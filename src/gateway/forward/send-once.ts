/** One sending to an upstream: within the upstream's timeout, with the answer's bytes counted in the buffers. */
import type { Holder } from '../../core/limits/limit.ts'
import type { Sending, UpstreamRequest } from '../../ports/upstream.ts'
import type { Limits } from '../limits/limits.ts'
import type { Deps } from '../shared/deps.ts'
import { UpstreamTime } from './upstream-time.ts'

export interface SendContext {
  readonly deps: Deps
  readonly limits: Limits
}

export interface OneSending {
  readonly sending: Sending
  /** Ends the timeout. Until then it also cuts off a stream that is still being read. */
  readonly endTimeout: () => void
  /** Gives back the answer's bytes. */
  readonly release: () => void
}

/** `maySend`: see {@link Upstream.send}. `placed`: called when the request has its connection's slot. */
export function sendOnce (
  { deps: { clock, upstream }, limits }: SendContext,
  request: Omit<UpstreamRequest, 'placed' | 'reserve'>,
  maySend: () => boolean,
  placed: () => void = () => {}
): OneSending {
  const holder: Holder | undefined = request.holder
  const time = new UpstreamTime(clock, request.upstream)
  let bytes = 0
  const sending = upstream.send({
    ...request,
    placed: () => {
      time.begin()
      placed()
    },
    reserve: (more) => {
      if (limits.buffered.take('answers', more, holder) !== null) return false
      bytes += more
      return true
    }
  }, maySend)
  time.limit(sending)
  return {
    sending,
    endTimeout: () => { time.end() },
    release: () => {
      limits.buffered.release('answers', bytes, holder)
      bytes = 0
    }
  }
}
