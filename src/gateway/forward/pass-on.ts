/**
 * A request that a preset lets pass, though its body had to be read to see it: sent once as it came, without a record. What
 * the head alone shows passes by the streamed way (http/).
 */
import { rulesOf } from '../../core/forward/deciding.ts'
import { answerHeaders } from '../../core/headers/headers.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import type { Holder } from '../../core/limits/limit.ts'
import type { GuardedRequest } from '../key/guarded-request.ts'
import type { Limits } from '../limits/limits.ts'
import type { Deps } from '../shared/deps.ts'
import type { Outcome } from '../shared/outcome.ts'
import { UpstreamTime } from './upstream-time.ts'

export async function passOn (
  context: { readonly deps: Deps, readonly limits: Limits },
  { route, method, target, rawHeaders, requestId, forwarded, informed, steps }: GuardedRequest,
  body: Buffer,
  holder: Holder
): Promise<Outcome> {
  const { clock, upstream } = context.deps
  const { upstream: to, idempotency } = route
  let heldBytes = 0
  const time = new UpstreamTime(clock, to)
  const sending = upstream.send({
    upstream: to,
    method,
    target,
    headers: guardedRequestHeaders(rawHeaders, {
      record: null,
      requestId,
      keyHeader: idempotency.key.header,
      rules: rulesOf(idempotency),
      forwardKey: true,
      host: to.host,
      forwarded,
      extra: to.requestHeaders,
      bodyBytes: body.length
    }),
    body,
    holder,
    placed: () => { time.begin() },
    informed,
    responseBytesMax: idempotency.keep.responseBytesMax,
    reserve: (bytes) => {
      if (context.limits.buffered.take('answers', bytes, holder) !== null) return false
      heldBytes += bytes
      return true
    }
  }, () => true)
  const release = (): void => { context.limits.buffered.release('answers', heldBytes, holder) }
  time.limit(sending)
  const sentAt = clock.monotonicMs()
  try {
    const result = await sending.result
    if (result.kind === 'stream') void result.taken.then(release)
    else release()
    switch (result.kind) {
      case 'answer':
        return {
          kind: 'passed',
          status: result.answer.status,
          headers: answerHeaders(result.answer.headers),
          body: result.answer.body,
          as: 'ignored'
        }
      case 'stream':
        return { kind: 'passed', status: result.status, headers: answerHeaders(result.headers), body: result.body, as: 'ignored' }
      case 'lost': return { kind: 'lost', timedOut: result.timedOut, again: true }
      case 'unsent': return result
    }
  } finally {
    time.end()
    steps.upstreamMs = clock.monotonicMs() - sentAt
  }
}
