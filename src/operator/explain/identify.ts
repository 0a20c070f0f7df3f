/** Whose request it is and which key it has, as the gateway finds out (gateway/identify.ts), without its limits and counters. */
import { fingerprintOf } from '../../core/fingerprint/fingerprint.ts'
import type { ComparedRequest } from '../../core/fingerprint/fingerprint.ts'
import { prefersAsync } from '../../core/headers/prefer.ts'
import { ACCEPTED } from '../../core/inbox/acceptance.ts'
import { keySourceText } from '../../core/key/sources.ts'
import type { Fingerprint } from '../../core/record/record.ts'
import { bearerToken } from '../../core/scope/scope.ts'
import { authorisationRefusal } from '../../gateway/authorise/authorise.ts'
import { ONE } from '../../gateway/execution/modes.ts'
import type { Split, SplitMessage } from '../../gateway/execution/modes.ts'
import { valueRefusal } from '../../gateway/inbox/accept.ts'
import { splitRequest } from '../../gateway/inbox/split.ts'
import { issuedKeyRefusal } from '../../gateway/issued-keys/judge.ts'
import { resolveKey } from '../../gateway/key/body-key.ts'
import type { ResolvedKey, UsableHeadKey } from '../../gateway/key/body-key.ts'
import { ScopeCache } from '../../gateway/scope/scope-cache.ts'
import { callerScope } from '../../gateway/scope/scope.ts'
import type { CallerScope } from '../../gateway/scope/scope.ts'
import type { Identified, Ids } from '../../gateway/shared/ids.ts'
import { rejected } from '../../gateway/shared/outcome.ts'
import type { Rejected } from '../../gateway/shared/outcome.ts'
import type { Problematic } from '../../gateway/shared/problem-answer.ts'
import { Steps } from '../../gateway/shared/steps.ts'
import type { TokenVerifier } from '../../ports/tokens.ts'
import { notKnown, refusedAnswer } from './answer.ts'
import type { RetryAnswer } from './answer.ts'
import { callerWords } from './caller-words.ts'
import { passesAnswer } from './head.ts'
import type { Taken } from './head.ts'

interface IdentifyContext {
  readonly tokens: TokenVerifier
  readonly clock: { readonly wallMs: () => number }
}

/** What has been found, up to the answer or the id. */
interface Found {
  readonly key: { readonly found: boolean, readonly source: string, readonly hash: null }
  readonly caller: { readonly scope: string, readonly verified: boolean } | null
  /** The ids as text. */
  readonly names: readonly string[]
  readonly steps: readonly string[]
}

export type Identification =
  | Found & { readonly kind: 'answered', readonly answer: RetryAnswer }
  | Found & {
    readonly kind: 'identified'
    readonly identified: Identified
    readonly asked: ComparedRequest
    readonly fingerprint: Fingerprint
    readonly preferred: boolean
  }

type Scoped = Extract<CallerScope, { kind: 'scope' }>

/** @throws as the stores do */
export async function identify (context: IdentifyContext, ids: Ids, taken: Taken): Promise<Identification> {
  const { route, key, body } = taken
  const { idempotency } = route
  const before: Found = { key: NO_KEY, caller: null, names: [], steps: [] }
  if (key.kind === 'refused') return refused(before, taken, key.outcome, ['The key cannot be used.'])
  const scope = await callerScope(
    { deps: { tokens: context.tokens, log: SILENT }, ids, notices: { warn: () => {} }, scopeCache: new ScopeCache() },
    taken,
    idempotency,
    route.name,
    route.upstream.host
  )
  if (scope.kind === 'refused') return refused(before, taken, scope.outcome, ['The caller is not known.'])
  const caller = { scope: callerWords(scope.scope), verified: isByToken(taken) }
  const known: Found = { ...before, caller, steps: [`The caller is told by ${caller.scope}.`] }
  if (ids.blocked !== null) return refused(known, taken, { kind: 'unavailable' }, [ids.blocked])
  const foreign = key.kind === 'keyless' ? null : issuedKeyRefusal({ deps: context, ids }, { route, steps: new Steps() }, key, scope)
  if (foreign !== null) return refused(known, taken, foreign, [])
  if (body.length > idempotency.keep.requestBytesMax) return refused(known, taken, rejected('request-too-large'), [])
  const split = key.kind === 'body' ? splitRequest(taken, body, context.clock.wallMs, ids.rules) : ONE
  return identifyBody(context, ids, { taken, key, scope, split }, known)
}

interface Whole { readonly taken: Taken, readonly key: UsableHeadKey, readonly scope: Scoped, readonly split: Split }

async function identifyBody (
  context: IdentifyContext,
  ids: Ids,
  { taken, key, scope, split }: Whole,
  known: Found
): Promise<Identification> {
  if (split.kind === 'refused') return refused(known, taken, split.outcome, [])
  if (split.kind === 'several') return batch(ids, taken, scope, split.messages, known)
  let isKeyless = false
  const meter = { keyless: () => { isKeyless = true } }
  const found = resolveKey({ clock: context.clock, meter, random: NO_CHANCE }, taken, key, taken.body)
  if (found.kind === 'refused') return refused(known, taken, found.outcome, [])
  if (found.kind === 'passes') {
    return answered(known, passesAnswer(`The route reads the keys of ${found.preset}, which does not guard such a request (${found.why}).`))
  }
  if (isKeyless) {
    const refusal = signatureRefusal(context, taken) ?? valuesRefusal(context, taken)
    return refusal === null ? answered(known, KEYLESS) : refused(known, taken, refusal, [])
  }
  const withKey = keyOf(taken, found, known)
  if (taken.onlyKeyFrom !== null && found.source !== undefined && found.source !== taken.onlyKeyFrom) {
    return answered(withKey, notKnown([
      `On this route ${keySourceText(found.source)} decides before ${keySourceText(taken.onlyKeyFrom)}. Ask with a whole request.`
    ]))
  }
  return identified(ids, taken, scope, found.key, withKey)
}

async function identified (ids: Ids, taken: Taken, scope: Scoped, key: string, known: Found): Promise<Identification> {
  const { route, method, target, rawHeaders, body } = taken
  const now = ids.identify(route, scope, key, () => false)
  const chosen = await ids.identifyAnew(route, scope, key)
  if (now === null || chosen === null) return refused(known, taken, { kind: 'unavailable' }, [])
  const asked: ComparedRequest = { method, target, rawHeaders, body }
  const names = [now.name, ...now.earlierId === null ? [] : [now.earlierId.toString('base64url')]]
  return {
    ...known,
    kind: 'identified',
    names,
    steps: [...known.steps, idStep(now, chosen)],
    identified: chosen,
    asked,
    fingerprint: fingerprintOf(asked, route.idempotency.fingerprint, chosen.keys.rules),
    preferred: route.idempotency.inbox !== null && prefersAsync(rawHeaders)
  }
}

function idStep (now: Identified, chosen: Identified): string {
  if (now.id.equals(chosen.id)) {
    return `Its id is ${now.name}.${now.earlierId === null ? '' : ' Nothing is stored under its id of the earlier scheme.'}`
  }
  return `Its id is ${chosen.name}, of the earlier scheme of ids, because something is stored under it.`
}

/** Each event has an answer of its own, and all are accepted or none. */
async function batch (
  ids: Ids,
  taken: Taken,
  scope: Scoped,
  messages: readonly [SplitMessage, ...SplitMessage[]],
  known: Found
): Promise<Identification> {
  const names: string[] = []
  for (const { key } of messages) names.push((await ids.identifyAnew(taken.route, scope, key))?.name ?? '')
  const [{ source }] = messages
  const withKey = { ...known, names, key: keyFrom(source === null ? 'several values' : keySourceText(source)) }
  return answered(withKey, notKnown([
    `The request is a batch of ${messages.length} events. Each becomes a message of its own, or none does.`,
    'Ask about one event, as the sender would send it alone.'
  ]))
}

// ---------------------------------------------------------------- small things

const NO_KEY = { found: false, source: 'The request has no usable key.', hash: null } as const

const KEYLESS: RetryAnswer = {
  does: 'is-accepted',
  status: ACCEPTED,
  code: null,
  sentences: ['The inbox of this route takes requests without a key. Each of them is a message of its own, and gets the status of an acceptance.']
}

/** A key that the gateway makes is in no explanation. */
const NO_CHANCE = { bytes: (size: number) => Buffer.alloc(size) }

const SILENT = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

function keyOf ({ route }: Taken, { source }: Extract<ResolvedKey, { kind: 'key' }>, known: Found): Found {
  const { sources: [first] } = route.idempotency.key
  const from = source ?? first
  const key = keyFrom(from === undefined ? 'a header' : keySourceText(from))
  return { ...known, key, steps: [...known.steps, key.source] }
}

function keyFrom (source: string): { readonly found: true, readonly source: string, readonly hash: null } {
  return { found: true, source: `The key comes from ${source}.`, hash: null }
}

/** By a token whose claims count. It was verified, or there is no scope. */
function isByToken ({ route: { idempotency: { jwt, scope } }, rawHeaders }: Taken): boolean {
  return jwt !== null && scope.kind === 'parts' && scope.parts.some(({ kind }) => kind === 'jwt') && bearerToken(rawHeaders) !== null
}

/** A signature covers the body, which is not known with a key alone. */
export function signatureRefusal ({ clock }: Pick<IdentifyContext, 'clock'>, taken: Taken): Rejected | null {
  const { route, rawHeaders, body, onlyKeyFrom } = taken
  return onlyKeyFrom === null
    ? authorisationRefusal({ clock, meter: { signature: () => {} } }, { route, rawHeaders }, body)
    : null
}

/** A message whose place in an order, or whose time, cannot be read. Either may be in the body, which is not known with a key alone. */
export function valuesRefusal (
  { clock }: Pick<IdentifyContext, 'clock'>,
  { route, method, target, rawHeaders, body, onlyKeyFrom }: Taken
): Rejected | null {
  const { inbox, inboxFor } = route.idempotency
  const becomesMessage = inbox !== null && (inboxFor === 'all' || prefersAsync(rawHeaders))
  return becomesMessage && onlyKeyFrom === null
    ? valueRefusal({ route, rawHeaders, asked: { method, target, rawHeaders, body } }, clock.wallMs())
    : null
}

function refused (known: Found, { route }: Taken, outcome: Problematic, why: readonly string[]): Identification {
  return answered(known, refusedAnswer(outcome, route.idempotency, why))
}

function answered (known: Found, answer: RetryAnswer): Identification {
  return { ...known, kind: 'answered', answer }
}
