/** The groups of a route, whose messages are delivered one after another, and the message that each waits for. */
import { inboxesOf } from '../../../core/inbox/targets.ts'
import type { VNode } from 'preact'
import type { AnswerOf } from '../../../operator/operations.ts'
import { GROUPS_MAX } from '../../../operator/inbox/routes.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, p } from '../shell/elements.ts'
import { to, withQuery } from '../shell/links.ts'
import { emptyState, live, notesOf, tableOf } from '../shell/lists.ts'
import { screen } from '../shell/page.ts'
import type { Page } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { duration, shortId, visible } from '../shell/text.ts'
import { stateOf } from './words.ts'

export type Group = AnswerOf<'showGroups'>['groups'][number]

const PATH = '/inbox/groups'

export function groupsPath (route: string): string { return withQuery(PATH, { route }) }

export function messageLink (id: string): VNode { return a({ class: 'id', href: to`/inbox/messages/${id}` }, shortId(id)) }

export const groupsPage: Page = {
  method: 'GET',
  path: PATH,
  role: 'viewer',
  run: async (visit) => {
    const route = visit.query.get('route') ?? ''
    const found = await visit.ask('showGroups', { params: { route } })
    if (found instanceof OperatorProblem) return problemScreen(found)
    const { groups, whole } = found
    const isKnown = inboxesOf(visit.context.config.routes).some(({ name }) => name === route)
    // A route that left the configuration may have messages still.
    if (!isKnown && whole && groups.length === 0) {
      return problemScreen(new OperatorProblem('not-found', 'No route of this name has an inbox.'))
    }
    return screen(`Groups of route ${visible(route)}`, [
      p({ class: 'actions' },
        a({ class: 'button', href: withQuery('/inbox/messages', { route }) }, 'Messages of this route'),
        a({ class: 'button', href: '/inbox' }, 'All routes')),
      live(visit, 'groups',
        notesOf([
          ...whole ? [] : ['The groups could not be counted in time. Ask again, or search for the messages of the route.'],
          ...groups.length < GROUPS_MAX ? [] : [`These ${GROUPS_MAX} have the most open messages. The route may have more groups.`]
        ]),
        groups.length > 0
          ? groupTable(groups)
          : whole ? emptyState('No message of a group is open. A group is here while a message of it waits, is in delivery or stops it.') : null)
    ])
  }
}

function groupTable (groups: readonly Group[]) {
  return tableOf<Group>('Groups', [
    { head: 'Waits for', cell: ({ first }) => messageLink(first.id) },
    {
      head: 'Its state',
      cell: ({ first: { state } }) => [stateOf(state), isStopped(state) ? ' It stops the group until it is retried or discarded.' : null]
    },
    { head: 'Open messages', number: true, cell: ({ open }) => open },
    { head: 'Oldest', cell: ({ oldestMs }) => duration(oldestMs) },
    { head: 'Hash of the group', cell: ({ group }) => shortId(group) }
  ], groups)
}

/** Only a message that stops its group is held or dead and still the first. */
function isStopped (state: Group['first']['state']): boolean { return state === 'held' || state === 'dead' }
