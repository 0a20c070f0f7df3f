/**
 * What a gateway would do with a request now, and why: its route, its key, its caller, what is stored under its id, the comparison, and the
 * answer. The functions of the gateway decide. It only reads: nothing is claimed, sent, counted, cached or logged.
 */
import { sameRequest } from '../../core/fingerprint/fingerprint.ts'
import { verifierOf } from '../../core/headers/signature.ts'
import { fingerprintText } from '../../core/protocol/aspects.ts'
import type { MessageDetail } from '../../core/inbox/message.ts'
import type { DropPolicy } from '../../core/policy/policy.ts'
import type { Fingerprint, RecordDetail } from '../../core/record/record.ts'
import type { Comparison } from '../../gateway/fingerprint/comparison.ts'
import { mayBeLost } from '../../gateway/fingerprint/lost-secret.ts'
import { Ids, keyHashOf } from '../../gateway/shared/ids.ts'
import type { InboxStore } from '../../ports/inbox.ts'
import type { MarkStore } from '../../ports/marks.ts'
import type { RecordStore } from '../../ports/records.ts'
import type { TokenVerifier } from '../../ports/tokens.ts'
import { answerFor, refusedAnswer } from './answer.ts'
import type { RetryAnswer } from './answer.ts'
import type { AskedKey, AskedRequest } from './asked.ts'
import { takeKey, takeRequest } from './head.ts'
import type { ExplainedRoute, HeadContext, Taken } from './head.ts'
import { identify, valuesRefusal, signatureRefusal } from './identify.ts'
import type { Identification } from './identify.ts'

/** What an explanation reads. A process without a gateway can have all of it. */
export interface ExplainContext extends HeadContext {
  readonly records: Pick<RecordStore, 'look' | 'list' | 'schemes' | 'lostAlgorithms' | 'mayBeLost'>
  readonly inbox: Pick<InboxStore, 'look'>
  /** The marks of a route with mode drop. null: they are in the memory of another process. */
  readonly marksOf: (route: string, policy: DropPolicy) => Pick<MarkStore, 'stands'> | null
  readonly tokens: TokenVerifier
  /** Those of ids, the newest first. */
  readonly secrets: readonly Buffer[]
  /** As for a gateway (gateway/shared/deps.ts). Absent: there are no such marks. */
  readonly marksKeptMs?: number
}

export interface Explanation {
  readonly route: ExplainedRoute
  /** `hash`: by it operators find records (base64url). `text`: only if the caller has asked for it. */
  readonly key: { readonly found: boolean, readonly source: string, readonly hash: string | null, readonly text?: string }
  /** `scope`: in words. null: it is not known, or was not looked for. */
  readonly caller: { readonly scope: string, readonly verified: boolean } | null
  /** Under the scheme that claims, then under the earlier one. Of a batch: one for each event. */
  readonly ids: readonly string[]
  /** With the stored answer. Whoever shows it to others leaves out what they may not see. */
  readonly record: RecordDetail | null
  readonly message: MessageDetail | null
  readonly comparison: { readonly is: 'same' | 'different' | 'not-compared', readonly words: readonly string[] }
  readonly answer: RetryAnswer
  /** The way to the answer, in sentences. */
  readonly steps: readonly string[]
}

export interface ExplainOptions {
  /** The key itself is shown too. */
  readonly showKey?: boolean
}

/** @throws as the stores do */
export async function explain (
  context: ExplainContext,
  asked: AskedRequest | AskedKey,
  { showKey = false }: ExplainOptions = {}
): Promise<Explanation> {
  const head = 'method' in asked ? takeRequest(context, asked) : takeKey(context, asked)
  const begun: Explanation = { ...NOTHING, route: head.route, steps: [head.route.why] }
  if (head.kind === 'answered') return { ...begun, answer: head.answer }
  const ids = idsOf(context)
  await ids.refresh()
  const { taken } = head
  const identification = await identify(context, ids, taken)
  const { key, caller, steps } = identification
  const known: Explanation = {
    ...begun,
    key: { ...key, ...showKey && identification.kind === 'identified' && { text: identification.identified.key } },
    caller,
    ids: identification.names,
    steps: [...begun.steps, ...steps]
  }
  if (identification.kind === 'answered') return { ...known, answer: identification.answer }
  return explainIdentified(context, ids, taken, identification, known)
}

const NOTHING: Omit<Explanation, 'route'> = {
  key: { found: false, source: 'No key was looked for.', hash: null },
  caller: null,
  ids: [],
  record: null,
  message: null,
  comparison: { is: 'not-compared', words: ['Nothing was looked for.'] },
  answer: { does: 'is-not-known', status: null, code: null, sentences: [] },
  steps: []
}

/** Made anew each time, so that nothing of an earlier explanation is believed. */
function idsOf ({ records, inbox, marksOf, secrets, marksKeptMs = 0 }: ExplainContext): Ids {
  const marks = { of: (route: string, policy: DropPolicy) => marksOf(route, policy) ?? NO_MARKS }
  return new Ids(() => ({ records, inbox, marks, log: { info: () => {}, error: () => {} } }), { secrets, marksKeptMs })
}

const NO_MARKS: Pick<MarkStore, 'stands'> = { stands: async () => false }

// ---------------------------------------------------------------- its id is known

async function explainIdentified (
  context: ExplainContext,
  ids: Ids,
  taken: Taken,
  identification: Extract<Identification, { kind: 'identified' }>,
  known: Explanation
): Promise<Explanation> {
  const { route } = taken
  const { identified, fingerprint, asked, preferred } = identification
  const { id } = identified
  const { drop } = route.idempotency
  const [[record = null], message] = await Promise.all([context.records.list({ id, limit: 1 }), context.inbox.look(id)])
  const compare = (theirs: Fingerprint | undefined): Comparison =>
    theirs === undefined || taken.onlyKeyFrom !== null ? 'same' : sameRequest(asked, fingerprint, theirs)
  const [comparison, ofMessage] = [compare(record?.fingerprint), compare(message?.fingerprint)]
  const found: Explanation = {
    ...known,
    key: { ...known.key, hash: keyHashOf(identified).toString('base64url') },
    record,
    message,
    comparison: comparisonOf({ taken, record, message, comparison, ofMessage }),
    steps: [
      ...known.steps,
      drop === null ? `These parts are compared: ${fingerprintText(route.idempotency, identified.keys.rules)}.` : NO_FINGERPRINT,
      ...drop === null ? [record === null && message === null ? 'Nothing is stored under this id.' : FOUND] : [],
      ...NOT_CONSIDERED
    ]
  }
  const refusal = signatureRefusal(context, taken)
  if (refusal !== null) return { ...found, answer: refusedAnswer(refusal, route.idempotency) }
  const signed: Explanation = isSigned(taken) && found.caller !== null ? { ...found, caller: { ...found.caller, verified: true } } : found
  if (drop === null && ids.lost !== null && await mayBeLost({ ids, deps: context }, { route, asked, identified }, null)) {
    return { ...signed, answer: refusedAnswer({ kind: 'unknown', timedOut: false }, route.idempotency, [LOST]) }
  }
  const unfit = drop === null ? valuesRefusal(context, taken) : null
  if (unfit !== null) return { ...signed, answer: refusedAnswer(unfit, route.idempotency) }
  const isMarked = drop === null ? null : await context.marksOf(route.name, drop)?.stands(id) ?? null
  return { ...signed, answer: answerFor({ route, record, message, comparison, ofMessage, preferred }, isMarked) }
}

const NO_FINGERPRINT = 'Mode drop compares nothing but the key.'
const FOUND = 'Something is stored under this id.'
const LOST = 'The secret of an earlier scheme of ids is lost, and this request may be a record of that scheme.'
const NOT_CONSIDERED = ['Not considered: limits of the gateways, a drain, and what Redis or the memory of a gateway knows beside the store.']

/** Only a gateway that has checked the signature of this very request knows who has signed it. */
function isSigned ({ route: { idempotency }, onlyKeyFrom }: Taken): boolean {
  return verifierOf(idempotency) !== null && onlyKeyFrom === null
}

// ---------------------------------------------------------------- the comparison

interface Compared {
  readonly taken: Taken
  readonly record: RecordDetail | null
  readonly message: MessageDetail | null
  readonly comparison: Comparison
  readonly ofMessage: Comparison
}

function comparisonOf ({ taken, record, message, comparison, ofMessage }: Compared): Explanation['comparison'] {
  if (taken.route.idempotency.drop !== null) return { is: 'not-compared', words: [NO_FINGERPRINT] }
  const [stored, is] = record === null || record.past ? [message, ofMessage] : [record, comparison]
  if (stored === null) return { is: 'not-compared', words: ['Nothing is stored with which the request could be compared.'] }
  if (taken.onlyKeyFrom !== null) {
    return { is: 'not-compared', words: ['Only a key and a caller are given. The answer is that to the same request.'] }
  }
  switch (is) {
    case 'same': return { is, words: ['Every compared part is that of the first request.'] }
    case 'different': return { is, words: ['A compared part differs from the first request.', ...differences(taken, stored)] }
    case 'unknown':
      return { is: 'not-compared', words: ['The fingerprint was made by another build or another policy, and cannot be made again here.'] }
  }
}

/** What an operator may see of the first request. Its body is not kept, so that a difference in it cannot be shown. */
function differences ({ method, target }: Taken, { about }: Pick<RecordDetail, 'about'>): readonly string[] {
  const path = target.split('?', 1)[0] ?? ''
  return [
    ...about.method === method ? [] : [`The method of the first request is ${about.method}.`],
    ...path === about.path || !path.startsWith('/') ? [] : [`The path of the first request is ${about.path}.`]
  ]
}
