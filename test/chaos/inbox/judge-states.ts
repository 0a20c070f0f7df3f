/**
 * N8: the states are true. Pure.
 * - delivered: the consumer accepted that delivery.
 * - dead: it refused the message for good, or the route gave up.
 * - held: the outcome is unknown.
 * - again: there was a reason for another delivery.
 */
import { UPSTREAM_TIMEOUT_MS } from '../routes.ts'
import type { Change } from './audit.ts'
import type { InboxFound, Message, Sending } from './history.ts'
import { BACKOFF_LONGEST_MS, deliveredBy, GONE } from './routes.ts'
import type { InboxRoute } from './routes.ts'

export function judgeStates (message: Message): InboxFound[] {
  const { record, calls, changes } = message
  const route = calls[0]?.wish.route
  if (route === undefined) return []
  return changes.flatMap((change, index): InboxFound[] => {
    const before = changes[index - 1]
    const wrong = before?.state === 'delivering' ? endedWrongly(message, route, before, change) : changedWrongly(message, before, change)
    return wrong === null ? [] : [{ invariant: 'N8', record, detail: `message ${record.slice(0, 8)}: ${wrong}` }]
  })
}

/** The result of a delivery. */
function endedWrongly (message: Message, route: InboxRoute, { attempt, tries, atMs: takenMs }: Change, ended: Change): string | null {
  const { state, status, error, atMs } = ended
  const sending = message.sendings.find((each) => each.attempt === attempt && !each.isExecution)
  if (status !== null && !isSaid(sending, status, atMs)) {
    return `delivery ${attempt} is ${state} with ${status}, which the consumer had not said`
  }
  if (error?.endsWith('UPSTREAM_TIMEOUT') === true && atMs - takenMs < UPSTREAM_TIMEOUT_MS - CLOCKS_MS) {
    return `delivery ${attempt} timed out after ${Math.round(atMs - takenMs)} ms`
  }
  const meaning = status === null ? null : deliveredBy(status, route)
  switch (state) {
    case 'delivered': return meaning === 'keep' && status !== GONE ? null : `delivery ${attempt} is delivered with ${status}`
    case 'dead': return deadWrongly(message, route, tries, ended)
    case 'held':
      return route.holds && !(sending?.answer !== null && sending !== undefined && isHeardAs(ended, sending))
        ? null
        : `delivery ${attempt} is held with ${error}`
    case 'waiting':
      return meaning === 'keep' || meaning === 'ends'
        ? `delivery ${attempt} is asked for again, although the consumer said ${status}`
        : null
    default: return `delivery ${attempt} ended as ${state}`
  }
}

/** How far the gateway's clock and the database's may drift apart within one timeout. */
const CLOCKS_MS = 50

function isSaid (sending: Sending | undefined, status: number, atMs: number): boolean {
  return sending?.answer?.status === status && sending.answer.atMs <= atMs + 1
}

/** An answer that does not prove an outcome (a hop's 502 or 504) is a reason to hold a message. */
function isHeardAs ({ error }: Change, { answer }: Sending): boolean {
  return error === `HTTP_${answer?.status}` && answer?.status !== 502 && answer?.status !== 504
}

function deadWrongly (
  { changes, record }: Message,
  route: InboxRoute,
  tries: number,
  { error, status, atMs, attempt }: Change
): string | null {
  const said = `delivery ${attempt} of ${record.slice(0, 8)} is dead with ${error}`
  if (error === 'GONE') return status === GONE ? null : said
  if (status !== null && error === `HTTP_${status}`) return deliveredBy(status, route) === 'ends' ? null : said
  if (error?.startsWith('ATTEMPTS_SPENT') === true) {
    return tries >= route.attemptsMax ? null : `${said} at try ${tries} of ${route.attemptsMax}`
  }
  if (error?.startsWith('TOO_OLD') !== true) return said
  const ageMs = atMs - Math.max(changes[0]?.atMs ?? 0, changes[0]?.dueFromMs ?? 0)
  return ageMs + BACKOFF_LONGEST_MS >= route.ageMaxMs ? null : `${said} after ${Math.round(ageMs)} ms`
}

/** Changes without a delivery: accepted, taken, or changed by an operator. */
function changedWrongly ({ byHand }: Message, before: Change | undefined, { state, gone, attempt }: Change): string | null {
  if (gone) return 'it was deleted, long before its time'
  if (before === undefined) return state === 'waiting' ? null : `it began as ${state}`
  if (state === 'delivering') {
    return before.state === 'waiting' && attempt > before.attempt
      ? null
      : `delivery ${attempt} was handed out of one that was ${before.state} at ${before.attempt}`
  }
  const action = state === 'discarded' ? 'discard' : before.state === 'delivered' ? 'replay' : 'retry'
  return byHand.some((each) => each.action === action && each.attempt === attempt && each.state === before.state)
    ? null
    : `it went from ${before.state} to ${state}, and nobody asked for that`
}
