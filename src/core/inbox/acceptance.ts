/**
 * What a sender is told of a message that was accepted, and whose message it is. The answer is the same for every request of
 * one message, so that it can stand in a record like any other.
 */
import { framedDigest } from '../record/digest.ts'
import { headerValue } from '../headers/lines.ts'
import { keyedDigest } from '../record/schemes.ts'
import type { Answer } from '../record/record.ts'

/** On the guarded listener: a message's id behind it and a slash is where its sender may ask how it stands. */
export const MESSAGES_PATH = '/.well-known/onceway/messages'

export const ACCEPTED = 202

export function messageLocation (name: string): string {
  return `${MESSAGES_PATH}/${name}`
}

/** `name`: the id in base64url. */
export function acceptedAnswer (name: string): Answer {
  const location = messageLocation(name)
  return {
    status: ACCEPTED,
    headers: ['Location', location, 'Content-Type', 'application/json'],
    body: Buffer.from(JSON.stringify({ id: name, location }))
  }
}

/**
 * Of a request that was split: as many messages as it had events, in their order. The same form for one: whoever sends
 * batches reads one form.
 */
export function acceptedAnswers (names: readonly string[]): Answer {
  const messages = names.map((name) => ({ id: name, location: messageLocation(name) }))
  return { status: ACCEPTED, headers: ['Content-Type', 'application/json'], body: Buffer.from(JSON.stringify({ messages })) }
}

/** Is this what {@link acceptedAnswer} made? */
export function isAcceptance ({ status, headers }: Answer, name: string): boolean {
  return status === ACCEPTED && headerValue(headers, 'location') === messageLocation(name)
}

/** Keep the hashes apart from every other hash of the same texts. */
const SCOPE_DOMAIN = 'onceway:message-scope:1'
const GROUP_DOMAIN = 'onceway:message-group:1'

export function messageScope (scope: string, secret: Buffer | null = null): Buffer {
  return keyedDigest(secret, [SCOPE_DOMAIN, scope])
}

export function messageGroup (route: string, value: string): Buffer {
  return framedDigest([GROUP_DOMAIN, route, value])
}
