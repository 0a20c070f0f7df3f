/**
 * The answer to a sender whose message was accepted, and the digest of the message's scope. The answer is the same for every request of one
 * message, so a record can store it like any other.
 */
import { framedDigest } from '../record/digest.ts'
import { headerValue } from '../headers/lines.ts'
import { keyedDigest } from '../record/schemes.ts'
import type { Answer } from '../record/record.ts'

/** On the guarded listener. With a slash and a message's id behind it, this is the path of the message's status. */
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

/** No target takes the request: there is nothing to ask for later. */
export function untakenAnswer (): Answer {
  return { status: ACCEPTED, headers: ['Content-Type', 'application/json'], body: Buffer.from(JSON.stringify(UNTAKEN)) }
}

const UNTAKEN = { targets: [] }

/**
 * One event of a request. `isNew`: it was accepted just now, and not before, nor as an earlier event of the same request. `isStored`: some
 * target takes it.
 */
export interface AcceptedMessage { readonly name: string, readonly isNew: boolean, readonly isStored: boolean }

/**
 * The answer to a request that was split: one entry for each event, in order. A single event gets the same form, so the sender of batches
 * reads one form only.
 */
export function acceptedAnswers (accepted: readonly AcceptedMessage[]): Answer {
  const messages = accepted.map(({ name, isNew, isStored }) => isStored
    ? { id: name, location: messageLocation(name), ...!isNew && { duplicate: true } }
    : UNTAKEN)
  return { status: ACCEPTED, headers: ['Content-Type', 'application/json'], body: Buffer.from(JSON.stringify({ messages })) }
}

/** Whether {@link acceptedAnswer} made this answer. */
export function isAcceptance ({ status, headers }: Answer, name: string): boolean {
  return status === ACCEPTED && headerValue(headers, 'location') === messageLocation(name)
}

/** They separate these hashes from every other hash of the same texts. */
const SCOPE_DOMAIN = 'onceway:message-scope:1'
const GROUP_DOMAIN = 'onceway:message-group:1'
const TENANT_DOMAIN = 'onceway:message-tenant:1'

export function messageScope (scope: string, secret: Buffer | null = null): Buffer {
  return keyedDigest(secret, [SCOPE_DOMAIN, scope])
}

export function messageGroup (route: string, value: string): Buffer {
  return framedDigest([GROUP_DOMAIN, route, value])
}

export function messageTenant (route: string, value: string): Buffer {
  return framedDigest([TENANT_DOMAIN, route, value])
}
