/**
 * A request that a preset passes through without a record, after its body was read to decide that. It is sent once as it came. A
 * request that shows this in its head is streamed (http/pass).
 */
import { rulesOf } from '../../core/forward/deciding.ts'
import { answerHeaders } from '../../core/headers/headers.ts'
import { guardedRequestHeaders } from '../../core/forward/forwarding.ts'
import type { Holder } from '../../core/limits/limit.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import type { Outcome } from '../shared/outcome.ts'
import { sendOnce } from './send-once.ts'
import type { SendContext } from './send-once.ts'

export async function passOn (
  context: SendContext,
  request: IncomingRequest,
  body: Buffer,
  holder: Holder | undefined
): Promise<Outcome> {
  const { route, method, target, rawHeaders, requestId, forwarded, steps } = request
  const { clock } = context.deps
  const { upstream: to, idempotency } = route
  const sentAt = clock.monotonicMs()
  const { result: ended, endTimeout, release } = sendOnce(context, {
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
    ...(holder !== undefined && { holder }),
    responseBytesMax: idempotency.keep.responseBytesMax
  }, { maySend: () => true, informed: (status, headers) => { request.informed(status, headers) } })
  try {
    const result = await ended
    if (result.kind === 'stream') void result.taken.then(release)
    else release()
    return outcomeOf(result)
  } finally {
    endTimeout()
    steps.upstreamMs = clock.monotonicMs() - sentAt
  }
}

function outcomeOf (result: UpstreamResult): Outcome {
  switch (result.kind) {
    case 'answer': {
      const { status, headers, body } = result.answer
      return { kind: 'passed', status, headers: answerHeaders(headers), body, as: 'ignored' }
    }
    case 'stream':
      return { kind: 'passed', status: result.status, headers: answerHeaders(result.headers), body: result.body, as: 'ignored' }
    case 'lost': return { kind: 'lost', timedOut: result.timedOut, again: true }
    case 'unsent': return result
  }
}
