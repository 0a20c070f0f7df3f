/**
 * The outside of a simulated gateway. The upstream records every execution, and answers by a script.
 * The clients retry with the same key until they have a final answer. Both record what they see.
 */
import { keptHeaders } from '../../src/core/headers/headers.ts'
import { headerValue } from '../../src/core/headers/lines.ts'
import type { Disposition, GuardedRoute } from '../../src/core/policy/policy.ts'
import type { Answer, RawHeaders } from '../../src/core/record/record.ts'
import { headKeyOf } from '../../src/gateway/key/head-key.ts'
import type { RequestHead } from '../../src/gateway/key/head-key.ts'
import type { HandedRequest } from '../harness/handled.ts'
import type { Outcome } from '../../src/gateway/shared/outcome.ts'
import { Steps } from '../../src/gateway/shared/steps.ts'
import type { UpstreamResult } from '../../src/ports/upstream.ts'
import { PromisedUpstream } from '../harness/promised-upstream.ts'
import type { PromisedSending, UpstreamRequest } from '../harness/promised-upstream.ts'
import { printOf } from '../harness/history.ts'
import type { HistoryEvent, Told } from '../harness/history.ts'
import type { Timeline } from '../harness/timeline.ts'
import type { Page } from './pages.ts'

// ---------------------------------------------------------------- the upstream

/** What the upstream does with one sending. `means`: what the answer says on the scenario's route. */
export type Behaviour =
  | {
    readonly kind: 'answer'
    readonly status: number
    readonly afterMs: number
    readonly means: Disposition
    readonly headers?: RawHeaders
  }
  /** Larger than may be kept: the head first. */
  | { readonly kind: 'stream', readonly afterMs: number }
  /** No connection: nothing is executed. */
  | { readonly kind: 'refuse' }
  /** Executed, and the connection breaks instead of an answer. */
  | { readonly kind: 'break', readonly afterMs: number }
  /** A hop answers (pages.ts). `done`: executed all the same. */
  | { readonly kind: 'page', readonly page: Page, readonly done: boolean, readonly afterMs: number }
  | { readonly kind: 'silence' }

/** What it records of its executions, for probes. */
export interface Bookkeeper {
  readonly enter: (
    record: string,
    execution: number,
    behaviour: Exclude<Behaviour, { kind: 'refuse' }>,
    answer: Answer,
    nowMs: number
  ) => void
  readonly answer: (record: string, nowMs: number) => UpstreamResult
}

/** From dispatch to the first byte. */
const CONNECT_MS = 1

export class SimulatedUpstream extends PromisedUpstream {
  readonly #timeline: Timeline
  readonly #note: (event: HistoryEvent) => void
  readonly #script: (turn: number) => Behaviour
  readonly #books: Bookkeeper | null
  readonly #turns = new Map<string, number>()
  /** Its books: every whole answer that it gave, by execution. */
  readonly answers = new Map<number, Answer>()
  #executions = 0

  constructor (
    timeline: Timeline,
    note: (event: HistoryEvent) => void,
    script: (turn: number) => Behaviour,
    books: Bookkeeper | null = null
  ) {
    super()
    this.#timeline = timeline
    this.#note = note
    this.#script = script
    this.#books = books
  }

  send (request: UpstreamRequest, maySend: () => boolean): PromisedSending {
    const result = Promise.withResolvers<UpstreamResult>()
    let started = false
    let cancelled = false
    const asked = (): boolean => {
      started = maySend()
      return started
    }
    this.#timeline.after(CONNECT_MS, () => { if (!cancelled) this.begin(request, asked, result.resolve) })
    const cancel = (code: string, timedOut: boolean): void => {
      cancelled = true
      result.resolve(started ? { kind: 'lost', code, timedOut, status: null } : { kind: 'unsent', code })
    }
    return { result: result.promise, cancel }
  }

  /**
   * A connection is open, and sending begins now. `wireMs`: the time from here to the upstream.
   * Returns a function that makes the request arrive at once.
   */
  begin (request: UpstreamRequest, maySend: () => boolean, tell: (result: UpstreamResult) => void, wireMs = 0): () => void {
    if (request.method === 'GET') return this.#asked(request, maySend, tell)
    const behaviour = this.#behaviour(request)
    if (behaviour.kind === 'refuse') tell({ kind: 'unsent', code: 'ECONNREFUSED' })
    else if (!maySend()) tell({ kind: 'unsent', code: 'LEASE' })
    else return this.#onTheWire(wireMs, () => { this.#execute(request, behaviour, tell) })
    return () => {}
  }

  /** The outcome of a record, at once from its records. */
  #asked ({ headers }: UpstreamRequest, maySend: () => boolean, tell: (result: UpstreamResult) => void): () => void {
    if (!maySend()) {
      tell({ kind: 'unsent', code: 'LEASE' })
    } else {
      tell(this.#books?.answer(headerValue(headers, 'onceway-key') ?? '', this.#timeline.nowMs) ?? {
        kind: 'lost',
        code: 'ECONNRESET',
        timedOut: false,
        status: null
      })
    }
    return () => {}
  }

  #onTheWire (wireMs: number, arrive: () => void): () => void {
    let arrived = false
    const arriveOnce = (): void => {
      if (!arrived) arrive()
      arrived = true
    }
    if (wireMs === 0) arriveOnce()
    else this.#timeline.after(wireMs, arriveOnce)
    return arriveOnce
  }

  /** The n-th sending of a record gets the n-th line of the script. */
  #behaviour ({ headers }: UpstreamRequest): Behaviour {
    const record = headerValue(headers, 'onceway-key') ?? ''
    const turn = (this.#turns.get(record) ?? 0) + 1
    this.#turns.set(record, turn)
    return this.#script(turn)
  }

  #execute (request: UpstreamRequest, behaviour: Exclude<Behaviour, { kind: 'refuse' }>, tell: (result: UpstreamResult) => void): void {
    const execution = ++this.#executions
    const field = (name: string): string => headerValue(request.headers, name) ?? ''
    this.#note({
      kind: 'sent',
      atMs: this.#timeline.nowMs,
      execution,
      call: field('x-request-id'),
      record: field('onceway-key'),
      attempt: Number(field('idempotency-attempt')),
      scope: callerIn(request.headers),
      asked: request.body.toString()
    })
    const body = Buffer.from(JSON.stringify({ execution, bytes: 'ÿ\0' }))
    const headers = [...ANSWER_HEADERS, 'Location', `/things/${execution}`, ...behaviour.kind === 'answer' ? behaviour.headers ?? [] : []]
    this.#books?.enter(field('onceway-key'), execution, behaviour, { status: 201, headers, body }, this.#timeline.nowMs)
    if (behaviour.kind === 'silence') return
    this.#timeline.after(behaviour.afterMs, () => {
      if (behaviour.kind === 'break') return tell({ kind: 'lost', code: 'ECONNRESET', timedOut: false, status: null })
      this.#note({ kind: 'replied', atMs: this.#timeline.nowMs, execution, means: meansOf(behaviour) })
      if (behaviour.kind === 'stream') {
        return tell({
          kind: 'stream',
          status: 201,
          headers: ANSWER_HEADERS,
          body: streamOf([body, body]),
          taken: Promise.resolve(),
          over: Promise.resolve(null)
        })
      }
      if (behaviour.kind === 'page') {
        return tell({
          kind: 'answer',
          answer: { status: behaviour.page.status, headers: behaviour.page.headers, body: Buffer.from(behaviour.page.body) }
        })
      }
      const answer: Answer = { status: behaviour.status, headers, body }
      this.answers.set(execution, answer)
      tell({ kind: 'answer', answer })
    })
  }
}

/** A page proves nothing. If nothing was done, releasing the key is as right as an unknown outcome. */
function meansOf (behaviour: Extract<Behaviour, { kind: 'answer' | 'stream' | 'page' }>): Disposition {
  if (behaviour.kind === 'page') return behaviour.done ? 'unknown' : 'release'
  return behaviour.kind === 'stream' ? 'keep' : behaviour.means
}

/** Some that are kept, repeated ones among them, and some that are not. */
const ANSWER_HEADERS = [
  'Content-Type', 'application/json', 'Link', '</a>', 'Link', '</b>', 'Date', 'Thu, 01 Jan 2026 00:00:00 GMT',
  'Set-Cookie', 's=1'
] as const

function streamOf (chunks: readonly Buffer[]): Extract<UpstreamResult, { kind: 'stream' }>['body'] {
  return {
    async * [Symbol.asyncIterator] () { yield * chunks },
    destroy: () => {}
  }
}

// ---------------------------------------------------------------- clients

export interface Client {
  readonly key: string
  /** What its Authorization says. Empty: it has none. */
  readonly scope: string
  /** Other headers that name the caller. */
  readonly besides?: RawHeaders
  /** Absent: the usual one. */
  readonly host?: string | undefined
  readonly body: string
  readonly startsAtMs: number
  /** Which gateway it asks. */
  readonly gateway: 0 | 1
}

/** `gone`: resolves when the client has left. By default never. */
export function requestOf (
  client: Omit<Client, 'gateway'>,
  route: GuardedRoute,
  call: string,
  gone: Promise<void> = new Promise(() => {})
): HandedRequest {
  const body = Buffer.from(client.body)
  const rawHeaders = headersOf(client)
  return {
    route,
    key: keyOf({ route, target: '/things', rawHeaders }),
    method: 'POST',
    target: '/things',
    rawHeaders,
    clientCertificate: null,
    forwarded: { for: '127.0.0.1', proto: 'http', host: hostOf(client), trusted: false },
    peer: null,
    informed: () => {},
    requestId: call,
    steps: new Steps(),
    readBody: async (bytesMax, budget) => body.length <= bytesMax && budget.reserve(body.length)
      ? { kind: 'body', body }
      : { kind: 'too-large' },
    gone: async () => gone
  }
}

/** Of a request that is guarded. */
export function keyOf (request: RequestHead): HandedRequest['key'] {
  const key = headKeyOf(request, Date.now)
  if (key.kind === 'unguarded') throw new Error(`no key is seen in ${request.rawHeaders.join(' ')}`)
  return key
}

const USUAL_HOST = 'gateway.test'

export function hostOf ({ host = USUAL_HOST }: Pick<Client, 'host'>): string {
  return host
}

export function headersOf ({ key, scope, besides = [], host }: Pick<Client, 'key' | 'scope' | 'besides' | 'host'>): RawHeaders {
  return [
    'Host',
    hostOf({ host }),
    'Content-Type',
    'text/plain',
    ...scope === '' ? [] : ['Authorization', scope],
    ...besides,
    'Idempotency-Key',
    key
  ]
}

const NAMING = ['authorization', 'x-api-key', 'x-tenant'] as const

/** All headers of a request that may name its caller, as the receiver sees them. */
export function callerIn (headers: RawHeaders): string {
  const host = headerValue(headers, 'host') ?? USUAL_HOST
  return [...NAMING.flatMap((name) => headerValue(headers, name) ?? []), ...host === USUAL_HOST ? [] : [`at ${host}`]].join(' ')
}

/** The outcome as the client sees it, in the checker's terms. Reads a stream to its end, like a client. */
export async function toldBy (outcome: Outcome, route: GuardedRoute): Promise<Told> {
  const answered = (kind: Told['kind'], { status, headers, body }: Answer): Told => {
    const kept = keptHeaders(headers, route.idempotency.keep)
    return { kind, print: printOf(status, kept, body), execution: executionIn(body) }
  }
  const own = (kind: Told['kind']): Told => ({ kind, print: null, execution: null })
  switch (outcome.kind) {
    case 'executed': return answered(outcome.stored ? 'stored' : 'given', outcome.answer)
    case 'replayed': return answered('replayed', outcome.answer)
    case 'released':
    case 'hop':
    case 'unprotected': return answered('given', outcome.answer)
    case 'streamed': {
      for await (const chunk of outcome.body) void chunk
      return own(outcome.as === 'consumed' && outcome.stored ? 'tombstone' : 'given')
    }
    case 'not-kept': return own('tombstone')
    case 'accepted': return own('accepted')
    case 'in-flight':
    case 'mismatch':
    case 'unknown': return own(outcome.kind)
    case 'unsent':
    case 'unavailable':
    case 'rejected': return own('unsent')
    case 'duplicate':
    case 'passed':
    case 'lost': throw new Error('no route here drops')
  }
}

function executionIn (body: Buffer): number | null {
  const digits = /"execution":(\d+)/.exec(body.toString('latin1'))?.[1]
  return digits === undefined ? null : Number(digits)
}
