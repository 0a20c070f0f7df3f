/**
 * A message in the terms of the status resource (docs/guides/accept-now-deliver-later.md). It shows nothing of the request, and of an error
 * only its code.
 */
import { pairs } from '../headers/lines.ts'
import type { MessageDetail, MessageState } from './message.ts'
import type { Answer } from '../record/record.ts'

/** No member is called status, because Dapr reads an answer's `status` as its own. */
export interface MessageView {
  readonly id: string
  readonly state: MessageState
  /** The number of the last delivery. It never decreases, and there were never more sendings. */
  readonly attempts: number
  readonly receivedAt: string
  /** null: none is due, or the message waits for its group's turn. */
  readonly nextAttemptAt: string | null
  readonly settledAt: string | null
  readonly lastError: string | null
  /** When an operator last replayed it, after it had been delivered. Absent: never. */
  readonly replayedAt?: string
  /** The consumer's last answer. null: there is none, or it was not kept, or each target has its own. */
  readonly answer: AnswerView | null
  /** The same of each target. Absent: the route has none. */
  readonly targets?: ReadonlyArray<TargetView>
}

type TargetView = { readonly target: string } & Omit<MessageView, 'id' | 'receivedAt' | 'targets'>

/** The message of one target. */
export interface TargetMessage { readonly name: string, readonly message: MessageDetail }

interface AnswerView {
  readonly code: number
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: string
  readonly encoding: 'utf-8' | 'base64'
}

export function messageView (
  { id, state, attempt, receivedAtMs, dueAtMs, settledAtMs, replayedAtMs, error, answer }: MessageDetail
): MessageView {
  return {
    id: id.toString('base64url'),
    state,
    attempts: attempt,
    receivedAt: rfc3339(receivedAtMs),
    nextAttemptAt: dueAtMs === null ? null : rfc3339(dueAtMs),
    settledAt: settledAtMs === null ? null : rfc3339(settledAtMs),
    lastError: error,
    ...replayedAtMs !== null && { replayedAt: rfc3339(replayedAtMs) },
    answer: answer === null ? null : answerView(answer)
  }
}

/**
 * The message as a whole: it is open while one target has it, and then as the target that came off worst. `first`: it has the id that the
 * sender knows.
 */
export function messageOfTargets (first: MessageDetail, targets: readonly TargetMessage[]): MessageView {
  const all = targets.map(({ message }) => message)
  const worst = WORST_FIRST.flatMap((state) => all.find((message) => message.state === state) ?? [])[0] ?? first
  const due = all.flatMap(({ dueAtMs }) => dueAtMs ?? [])
  const settled = all.flatMap(({ settledAtMs }) => settledAtMs ?? [])
  return {
    ...messageView({
      ...worst,
      id: first.id,
      attempt: Math.max(...all.map(({ attempt }) => attempt)),
      dueAtMs: due.length === 0 ? null : Math.min(...due),
      settledAtMs: settled.length < all.length ? null : Math.max(...settled),
      replayedAtMs: null,
      answer: null
    }),
    targets: targets.map(({ name, message }) => {
      const { id, receivedAt, ...view } = messageView(message)
      return { target: name, ...view }
    })
  }
}

const WORST_FIRST: readonly MessageState[] = ['delivering', 'waiting', 'held', 'dead', 'discarded', 'delivered']

function answerView ({ status, headers, body }: Answer): AnswerView {
  return { code: status, headers: [...pairs(headers)], ...bodyView(body, false) }
}

/** `isCut`: the body goes on behind these bytes, which may end within a character. What is there of that one is left out. */
export function bodyView (body: Buffer, isCut: boolean): Pick<AnswerView, 'body' | 'encoding'> {
  try {
    // A byte order mark is part of the body.
    const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    return { body: utf8.decode(body, { stream: isCut }), encoding: 'utf-8' }
  } catch {
    return { body: body.toString('base64'), encoding: 'base64' }
  }
}

function rfc3339 (ms: number): string {
  return new Date(ms).toISOString()
}

/** The longest useful wait before the next request for the status. */
const ASK_AGAIN_MAX_SECONDS = 60
const MS_PER_SECOND = 1000

/** When to ask again about several. null: all are final. */
export function askAgainFirst (messages: ReadonlyArray<Pick<MessageDetail, 'state' | 'dueAtMs'>>, nowMs: number): number | null {
  const all = messages.flatMap((message) => askAgainSeconds(message, nowMs) ?? [])
  return all.length === 0 ? null : Math.min(...all)
}

/** The same about one. */
function askAgainSeconds ({ state, dueAtMs }: Pick<MessageDetail, 'state' | 'dueAtMs'>, nowMs: number): number | null {
  if (state === 'delivered' || state === 'dead' || state === 'discarded') return null
  // An operator decides.
  if (state === 'held') return ASK_AGAIN_MAX_SECONDS
  const inMs = dueAtMs === null ? 0 : dueAtMs - nowMs
  return Math.min(ASK_AGAIN_MAX_SECONDS, Math.max(1, Math.ceil(inMs / MS_PER_SECOND)))
}
