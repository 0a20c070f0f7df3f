/** The operation that explains: what an operator asks, read, and the explanation as the API shows it. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import type { OperationContext } from './context.ts'
import type { AskedKey, AskedRequest, PastedRequest } from './explain/asked.ts'
import { explain } from './explain/explain.ts'
import { parsePastedRequest, PASTED_CHARS_MAX } from './explain/paste.ts'
import { PasteError } from './explain/paste-error.ts'
import { MessageView } from './inbox/schemas.ts'
import { messageJson } from './inbox/view.ts'
import { RecordView, RetryView } from './records/schemas.ts'
import { recordJson } from './records/view.ts'
import { badRequest, OperatorProblem, type Outcome } from './shared/problem.ts'
import { closed, HeaderField, Nullable } from './shared/schema-words.ts'

const Headers = Type.Array(HeaderField(16_384), { maxItems: 256 })

export const ExplainBody = Type.Object({
  pasted: Type.Optional(Type.String({
    maxLength: PASTED_CHARS_MAX,
    description: 'A request as HTTP/1.1, as in a log or from a proxy, or one curl command. It is read, and never run.'
  })),
  request: Type.Optional(Type.Object({
    method: Type.String({ minLength: 1, maxLength: 32 }),
    target: Type.String({ minLength: 1, maxLength: 16_384, description: 'Path and query, as the client sends them.' }),
    host: Type.Optional(Type.String({ maxLength: 256 })),
    headers: Headers,
    body: Type.Optional(Type.String({ maxLength: PASTED_CHARS_MAX })),
    encoding: Type.Optional(Type.Enum(['utf-8', 'base64'], { default: 'utf-8' }))
  }, closed)),
  key: Type.Optional(Type.Object({
    route: Type.String({ minLength: 1, maxLength: 1024 }),
    key: Type.String({ minLength: 1, maxLength: 4096 }),
    callerHeaders: Type.Optional(Headers),
    host: Type.Optional(Type.String({ maxLength: 256 }))
  }, { ...closed, description: 'For routes whose key is in a header. `callerHeaders`: those that name the caller, such as Authorization.' })),
  peerAddress: Type.Optional(Type.String({ maxLength: 64, description: 'Of whoever connects, for `trustProxies`.' }))
}, closed)

export const ExplanationView = Type.Object({
  notes: Type.Array(Type.String(), { description: 'What was guessed of a pasted request.' }),
  route: Type.Object({ name: Nullable(Type.String()), why: Type.String(), guarded: Type.Boolean() }, closed),
  key: Type.Object({ found: Type.Boolean(), source: Type.String(), hash: Nullable(Type.String()) }, closed),
  caller: Nullable(Type.Object({ scope: Type.String(), verified: Type.Boolean() }, closed)),
  ids: Type.Array(Type.String()),
  record: Nullable(RecordView),
  message: Nullable(MessageView),
  comparison: Type.Object({ is: Type.Enum(['same', 'different', 'not-compared']), words: Type.Array(Type.String()) }, closed),
  answer: RetryView,
  steps: Type.Array(Type.String())
}, closed)

export type ExplainValues = Static<typeof ExplainBody>
export type ExplanationJson = Static<typeof ExplanationView>

/** Nothing is claimed, sent, counted or logged. @throws as the stores do */
export async function explainRequest (context: OperationContext, values: ExplainValues): Promise<Outcome<ExplanationJson>> {
  const asked = askedOf(values)
  if (asked instanceof OperatorProblem) return asked
  if ('method' in asked && !METHOD.test(asked.method)) return badRequest(methodMistake(asked.method))
  const { stores, explaining } = context
  const found = await explain({ ...explaining, records: stores.records, inbox: stores.inbox, secrets: stores.secrets() }, asked)
  const nowMs = await stores.operator.nowMs()
  const { record, message, key: { found: isFound, source, hash }, route, caller, comparison, answer } = found
  return {
    notes: 'notes' in asked ? [...asked.notes] : [],
    route: { name: route.name, why: route.why, guarded: route.guarded },
    key: { found: isFound, source, hash },
    caller,
    ids: [...found.ids],
    record: record === null ? null : recordJson(record, nowMs, context),
    message: message === null ? null : messageJson(message),
    comparison: { is: comparison.is, words: [...comparison.words] },
    answer: { ...answer, sentences: [...answer.sentences] },
    steps: [...found.steps]
  }
}

/** Those that Node's parser takes. It refuses others before a gateway sees them. */
const METHOD = /^[A-Z][A-Z-]*$/

/** RFC 9110 9.1: methods are case-sensitive. */
function methodMistake (method: string): string {
  const meant = method.toUpperCase()
  const why = 'Methods are case-sensitive: a gateway answers 400 to this request before it looks at its route.'
  return METHOD.test(meant) ? `The method is ${method}, which is not ${meant}. ${why}` : `The method is none that HTTP has. ${why}`
}

function askedOf ({ pasted, request, key, peerAddress }: ExplainValues): Outcome<AskedRequest | AskedKey | PastedRequest> {
  const given = [pasted, request, key].filter((each) => each !== undefined)
  if (given.length !== 1) return badRequest('Give one of the three: pasted, request, or key.')
  const peer = peerAddress === undefined ? {} : { peerAddress }
  if (pasted !== undefined) return pastedOf(pasted, peer)
  if (key !== undefined) {
    const { callerHeaders = [], host, ...named } = key
    return { ...named, callerHeaders: latin1(callerHeaders), ...(host !== undefined && { host }), ...peer }
  }
  if (request === undefined) throw new TypeError('one of three is given')
  const { method, target, host = null, headers, body = '', encoding = 'utf-8' } = request
  return {
    method,
    target: Buffer.from(target, 'utf8').toString('latin1'),
    host,
    headers: latin1(headers),
    body: Buffer.from(body, encoding),
    ...peer
  }
}

function pastedOf (text: string, peer: { readonly peerAddress?: string }): Outcome<PastedRequest> {
  try {
    return { ...parsePastedRequest(text), ...peer }
  } catch (error) {
    if (error instanceof PasteError) return badRequest(error.message)
    throw error
  }
}

/** As Node hands header fields over: a byte in each character. */
function latin1 (headers: ReadonlyArray<readonly [string, string]>): string[] {
  return headers.flatMap(([name, value]) => [name, Buffer.from(value, 'utf8').toString('latin1')])
}
