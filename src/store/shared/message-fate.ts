/** The outcome of a delivery, as the columns that a database's driver writes. */
import { encodeAnswer, encodeHeaders } from '../../core/protocol/codec.ts'
import { NO_REPLY } from '../../core/inbox/message.ts'
import type { DeadLetter, Fate, MessageState, Reply } from '../../core/inbox/message.ts'
import { replyOfFate } from '../../core/inbox/row.ts'
import type { Answer } from '../../core/record/record.ts'

export interface FateColumns {
  readonly state: Extract<MessageState, 'waiting' | 'delivered' | 'dead' | 'held'>
  /** For a waiting message: until its next delivery. */
  readonly inMs: number
  readonly status: number | null
  readonly error: string | null
  readonly answer: Buffer | null
  /** Of a delivered message: how long its request is kept. 0: it is deleted. */
  readonly requestMs: number
  /** It was no delivery, so it does not count as a try. */
  readonly untried: boolean
  readonly reply: Reply
  /** null: there is none. */
  readonly letter: LetterColumns | null
}

export interface LetterColumns {
  readonly id: Buffer
  readonly route: string
  readonly target: Buffer
  readonly headers: Buffer
  /** Of the body, which is copied. */
  readonly bytes: number
  readonly deadKeepMs: number
}

export function columnsOfFate (fate: Fate): FateColumns {
  switch (fate.kind) {
    case 'delivered':
      return {
        state: 'delivered',
        inMs: 0,
        status: fate.status,
        error: null,
        answer: bytesOf(fate.answer),
        requestMs: Math.round(fate.requestMs ?? 0),
        untried: false,
        // Its answer says the rest.
        reply: { ...replyOfFate(fate), body: NO_REPLY.body, isCut: false },
        letter: null
      }
    case 'again':
      return {
        state: 'waiting',
        inMs: Math.round(fate.inMs),
        status: fate.status,
        error: fate.error,
        answer: null,
        requestMs: 0,
        untried: fate.counts === false,
        reply: replyOfFate(fate),
        letter: null
      }
    case 'dead':
      return {
        state: 'dead',
        inMs: 0,
        status: fate.status,
        error: fate.error,
        answer: bytesOf(fate.answer),
        requestMs: 0,
        untried: fate.counts === false,
        reply: replyOfFate(fate),
        letter: fate.letter === undefined ? null : letterColumns(fate.letter)
      }
    case 'held':
      return {
        state: 'held',
        inMs: 0,
        status: null,
        error: fate.error,
        answer: null,
        requestMs: 0,
        untried: false,
        reply: replyOfFate(fate),
        letter: null
      }
  }
}

function letterColumns ({ id, route, target, headers, bytes, deadKeepMs }: DeadLetter): LetterColumns {
  return { id, route, target: Buffer.from(target, 'latin1'), headers: encodeHeaders(headers), bytes, deadKeepMs: Math.round(deadKeepMs) }
}

/** What its statement moves. */
export function bytesOfFate ({ answer, reply, letter }: FateColumns): number {
  return (answer?.length ?? 0) + reply.body.length + (letter === null ? 0 : letter.bytes + letter.headers.length)
}

/** An answer that cannot be encoded is not kept. Its message must not be delivered again for that. */
function bytesOf (answer: Answer | null): Buffer | null {
  if (answer === null) return null
  try {
    return encodeAnswer(answer)
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** A request that cannot be decoded is never sent. Something else has written this row. */
export const UNDECODABLE: Fate = { kind: 'dead', status: null, error: 'UNDECODABLE', answer: null }
