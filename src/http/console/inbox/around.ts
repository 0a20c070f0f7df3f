/** What keeps a message from its delivery: a pause of its route, and the message that its group waits for. */
import type { MessageJson } from '../../../operator/inbox/schemas.ts'
import type { PausedRoute } from '../../../ports/operator.ts'
import { GROUPS_MAX } from '../../../operator/inbox/routes.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { timeText } from '../../../operator/shared/query.ts'
import { a, p } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import type { Visit } from '../shell/page.ts'
import { counted, moment, said } from '../shell/text.ts'
import { groupsPath } from './groups.ts'
import type { Group } from './groups.ts'

export interface Around {
  readonly route: string
  readonly paused: PausedRoute | null
  /** null: it has none, or it is not known which one it is. */
  readonly group: Group | null
}

/** It holds up its group until an operator acts. Otherwise it would be forgotten at some time. */
export function stopsItsGroup ({ ordered, state, expiresAt }: MessageJson): boolean {
  return ordered && (state === 'held' || state === 'dead') && expiresAt === null
}

export async function aroundOf (visit: Visit, message: MessageJson): Promise<Around> {
  const { route } = message
  const paused = (await visit.context.stores.operator.paused()).find((each) => each.route === route) ?? null
  return { route, paused, group: await groupOf(visit, message) }
}

/** A message does not say which group it is of. It is known of the first of a group, and if all that wait are of one group. */
async function groupOf (visit: Visit, message: MessageJson): Promise<Group | null> {
  const { id, ordered, route, state } = message
  if (!ordered || !(state === 'waiting' || stopsItsGroup(message))) return null
  const found = await visit.ask('showGroups', { params: { route } })
  if (found instanceof OperatorProblem) return null
  const ofFirst = found.groups.find(({ first }) => first.id === id)
  if (ofFirst !== undefined || state !== 'waiting') return ofFirst ?? null
  const [only, ...others] = found.groups.filter(({ open }) => open > 1)
  return only !== undefined && others.length === 0 && found.groups.length < GROUPS_MAX ? only : null
}

/** Of a message that stops its group. */
export function stopWords ({ route, group }: Around): Child {
  if (group === null) return ['It stops its group. How many wait behind it: ', a({ href: groupsPath(route) }, 'groups of the route'), '.']
  const behind = group.open - 1
  return `It stops its group. ${behind === 0 ? 'No message waits' : `${counted(behind, 'message waits', 'messages wait')}`} behind it.`
}

export function pauseNotice ({ route, paused }: Around): Child {
  return paused === null
    ? null
    : p({ class: 'notice' },
      'Route ', said(route), ' is paused since ', moment(timeText(paused.sinceMs)), ' by ', said(paused.who), ': ', said(paused.why),
      '. Nothing of it is delivered until somebody resumes it.')
}
