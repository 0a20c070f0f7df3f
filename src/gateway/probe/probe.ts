/**
 * One probe (`unknown: probe`): asks the upstream about a record with an unknown outcome.
 * By the answer the record is settled, released, or left for a later probe.
 * All writes are compare-and-set. If a late answer of the owner is settled meanwhile, it wins.
 */
import { encodeHeaders } from '../../core/protocol/codec.ts'
import { afterFinding, questionHeaders, readFinding, readHead, readQuestion } from '../../core/probe/probe.ts'
import type { Finding, Question } from '../../core/probe/probe.ts'
import type { Answer } from '../../core/record/record.ts'
import { explained } from '../../core/forward/upstream-fault.ts'
import { pairs } from '../../core/headers/lines.ts'
import type { DueProbe, Resolution } from '../../ports/records.ts'
import type { ProbeResult } from '../../ports/telemetry.ts'
import type { UpstreamResult } from '../../ports/upstream.ts'
import type { Drain } from '../shared/drain.ts'
import type { ProbedRoute, Deps } from '../shared/deps.ts'

interface ProbeContext {
  readonly deps: Deps
  readonly drain: Drain
}

/** The pause for a question of another build, or for an upstream that the route no longer has. It doubles with each try. */
const UNASKABLE_MS = 60_000
const UNASKABLE_LONGEST_MS = 3_600_000

export async function probe (context: ProbeContext, due: DueProbe): Promise<void> {
  const { meter, log, records } = context.deps
  const route = context.deps.probed.get(due.route)
  const question = readQuestion(due.question)
  const record = due.token.id.toString('base64url')
  if (route === undefined || question === null || question.upstream !== route.upstream.name) {
    log.warn(
      { event: 'probe-impossible', record, route: due.route, upstream: question?.upstream },
      'the upstream cannot be asked about this record: its question is for another upstream than the route has now, or of another build'
    )
    await records.noteProbe({
      token: due.token,
      tries: due.tries,
      afterMs: Math.min(UNASKABLE_MS * 2 ** Math.min(due.tries - 1, 10), UNASKABLE_LONGEST_MS),
      absent: 'stays'
    })
    return
  }
  const finding = await ask(context, route, question, due)
  // The stores close. Another gateway takes the question up later.
  if (context.drain.stopped) return
  const step = afterFinding(route.idempotency.probe, due, finding)
  const fields = { record, route: due.route, requestId: due.requestId, attempt: due.token.attempt, asked: due.tries }
  switch (step.do) {
    case 'adopt': return settle(context, due, adoption(route, due, step.status, step.answer), 'found', fields)
    case 'release': return settle(context, due, release(route, due), 'released', fields)
    case 'give-up':
      meter.probed(due.route, 'given-up')
      log.error(
        { event: 'probe-given-up', ...fields, why: whyOf(finding) },
        'the upstream did not say what became of this record within probe.giveUpAfter: it is held until somebody resolves it'
      )
      await records.noteProbe({ token: due.token, tries: due.tries, afterMs: null, absent: 'stays' })
      return
    case 'again':
      meter.probed(due.route, finding.kind === 'absent' ? 'absent' : 'nothing')
      log.info(
        { event: 'probe-undecided', ...fields, finding: finding.kind, why: whyOf(finding), afterMs: Math.round(step.afterMs) },
        'asked the upstream about an unknown outcome; it will be asked again'
      )
      await records.noteProbe({ token: due.token, tries: due.tries, afterMs: step.afterMs, absent: step.absent })
  }
}

// ---------------------------------------------------------------- the question

async function ask (context: ProbeContext, route: ProbedRoute, question: Question, due: DueProbe): Promise<Finding> {
  const { clock, upstream, tracing } = context.deps
  const { probe: policy, keep } = route.idempotency
  const record = due.token.id.toString('base64url')
  const about = { route: due.route, upstream: question.upstream, record, requestId: due.requestId, attempt: due.tries }
  const trace = due.trace == null ? null : tracing?.probe(due.trace, about) ?? null
  const { promise, resolve } = Promise.withResolvers<UpstreamResult>()
  const sending = upstream.start({
    upstream: route.upstream,
    method: question.method,
    target: question.target,
    headers: questionHeaders(question, policy, [
      ['Accept-Encoding', 'identity'],
      ['Via', '1.1 onceway'],
      ['Onceway-Key', record],
      ['X-Request-Id', due.requestId],
      ...trace === null ? [] : pairs(trace.context)
    ], route.upstream.requestHeaders),
    body: Buffer.alloc(0),
    responseBytesMax: keep.responseBytesMax,
    timeoutMs: policy.timeoutMs
  }, { maySend: () => !context.drain.stopped, placed: () => {}, informed: () => {}, reserve: () => true, ended: resolve })
  const cancelSending = (): void => { sending.cancel('PROBE_TIMEOUT', true) }
  const cancel = clock.after(policy.timeoutMs, cancelSending)
  context.drain.probes.add(cancelSending)
  try {
    const result = await promise
    // A stream may have no end. A probe, unlike a request, may be aborted.
    if (result.kind === 'stream') sending.cancel('PROBE_OVER', false)
    const finding = findingOf(route, result)
    trace?.ended(finding.kind, result.kind === 'answer' ? result.answer.status : null)
    return finding
  } finally {
    cancel()
    context.drain.probes.delete(cancelSending)
  }
}

function findingOf (route: ProbedRoute, result: UpstreamResult): Finding {
  const { probe: policy, keep } = route.idempotency
  switch (result.kind) {
    case 'answer': return readFinding(policy, keep, result.answer)
    case 'unsent':
    case 'lost': return { kind: 'nothing', why: explained(result.code, route.upstream.name) }
    case 'stream': return readHead(policy, result.status, result.headers)
  }
}

function whyOf (finding: Finding): string | undefined {
  return finding.kind === 'nothing' ? finding.why : undefined
}

// ---------------------------------------------------------------- the result

function adoption (route: ProbedRoute, { token }: DueProbe, status: number, answer: Answer | null): Resolution {
  return {
    token,
    outcome: answer === null ? 'consumed' : 'completed',
    keepMs: route.idempotency.retentionMs,
    status,
    headers: answer === null ? null : encodeHeaders(answer.headers),
    body: answer?.body ?? null,
    by: 'probe',
    tries: null,
    audit: { action: 'resolve', who: 'probe', why: 'the upstream knows it' }
  }
}

function release (route: ProbedRoute, { token, tries }: DueProbe): Resolution {
  return {
    token,
    outcome: 'released',
    keepMs: route.idempotency.retentionMs,
    status: null,
    headers: null,
    body: null,
    by: 'probe',
    tries,
    audit: { action: 'release', who: 'probe', why: 'the upstream does not know it, asked twice' }
  }
}

async function settle (
  context: ProbeContext,
  { token, route, tries }: DueProbe,
  resolution: Resolution,
  result: ProbeResult,
  fields: object
): Promise<void> {
  const { meter, log, records, locks } = context.deps
  const settled = await records.resolve(resolution)
  if (settled.kind === 'done') {
    meter.probed(route, result)
    log.info(
      { event: 'probe-settled', ...fields, outcome: resolution.outcome, status: resolution.status },
      'the upstream said what became of an unknown outcome: the record is settled'
    )
    locks.wake(token.id)
    return
  }
  if (settled.quarantineLeftMs !== null) await records.noteProbe({ token, tries, afterMs: settled.quarantineLeftMs + 1, absent: 'forget' })
  else meter.probed(route, 'overtaken')
}
