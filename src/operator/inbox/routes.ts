/** The inbox as a whole: depth and age by route, and routes that are paused. */
import { inboxesOf, targetRoutes } from '../../core/inbox/targets.ts'
import { Type } from 'typebox'
import type { Static } from 'typebox'
import type { Identity } from '../../core/operator/roles.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { OperatorProblem, type Outcome } from '../shared/problem.ts'
import { timeOrNull, timeText } from '../shared/query.ts'
import { shownNow } from '../shared/within.ts'
import { closed, Id, MessageStateName, Nullable, Time } from '../shared/schema-words.ts'

export const InboxRouteView = Type.Object({
  route: Type.String(),
  waiting: Type.Integer(),
  delivering: Type.Integer(),
  held: Type.Integer({ description: 'Sent, and the outcome is unknown: they wait for an operator.' }),
  dead: Type.Integer(),
  bytes: Type.Number({ description: 'Of the requests that are waiting, being delivered, held or dead.' }),
  deadBytes: Type.Number({ description: 'Of the dead ones among them.' }),
  oldestMs: Nullable(Type.Number({
    description: 'Since the oldest of those that are not dead was accepted, or since its scheduled time. null: there is none.'
  })),
  configured: Type.Boolean({ description: 'false: no route of the configuration delivers these messages.' }),
  paused: Nullable(Type.Object({
    since: Time,
    who: Type.String(),
    why: Type.String(),
    trialAt: Nullable(Time, { description: 'When one message is delivered all the same. null: an operator paused it.' })
  }, closed))
}, closed)

export const InboxView = Type.Object({ routes: Type.Array(InboxRouteView) }, closed)
export const PausedView = Type.Object({
  done: Type.String(),
  route: Nullable(InboxRouteView, { description: 'As it is now. null: it could not be read again.' })
}, closed)

export type InboxJson = Static<typeof InboxView>
export type PausedJson = Static<typeof PausedView>

const EMPTY = { waiting: 0, delivering: 0, held: 0, dead: 0, bytes: 0, deadBytes: 0, oldestMs: null } as const

export async function inboxRoutes ({ stores, config }: OperatorContext): Promise<InboxJson> {
  const [depths, paused] = await Promise.all([stores.inbox.depths(), stores.operator.paused()])
  const configured = inboxesOf(config.routes).map(({ name }) => name)
  const names = [...new Set([...configured, ...depths.map(({ route }) => route), ...paused.map(({ route }) => route)])].sort()
  return {
    routes: names.map((route) => {
      const depth = depths.find((each) => each.route === route) ?? EMPTY
      const pause = paused.find((each) => each.route === route)
      return {
        ...depth,
        route,
        configured: configured.includes(route),
        paused: pause === undefined
          ? null
          : { since: timeText(pause.sinceMs), who: pause.who, why: pause.why, trialAt: timeOrNull(pause.trialAtMs) }
      }
    })
  }
}

export async function pauseRoute (context: OperatorContext, identity: Identity, route: string, why: string): Promise<Outcome<PausedJson>> {
  const known = (await inboxRoutes(context)).routes.find((each) => each.route === route)
  if (known === undefined) return new OperatorProblem('not-found', 'No route of this name has an inbox.')
  const targets = targetNames(context, route)
  // What waited before the route had targets can be paused.
  if (targets.length > 0 && known.waiting === 0) {
    return new OperatorProblem('refused', `The messages of this route go to its targets. Pause ${targets.join(', ')}.`)
  }
  const { name: who, via } = identity
  if (!await context.stores.operator.pause(route, { who, via, why })) return new OperatorProblem('refused', 'The route is paused already.')
  return after(context, route, isGone(context, route)
    ? 'Paused. No route of the configuration has this inbox, so nothing is accepted either.'
    : 'Paused: messages are accepted and not delivered. Deliveries in flight go on.')
}

/** The inboxes of a route's targets, by name. */
function targetNames ({ config }: Pick<OperatorContext, 'config'>, name: string): string[] {
  const own = inboxesOf(config.routes).filter((route) => route.name === name)
  return own.flatMap((route) => targetRoutes(route).map((target) => target.name))
}

export async function resumeRoute (context: OperatorContext, identity: Identity, route: string, why: string): Promise<Outcome<PausedJson>> {
  const { name: who, via } = identity
  if (!await context.stores.operator.resume(route, { who, via, why })) return new OperatorProblem('refused', 'The route is not paused.')
  return after(context, route, isGone(context, route)
    ? 'Resumed. No route of the configuration has this inbox, so nothing is delivered.'
    : 'Resumed: its messages are delivered again.')
}

/** Without a file of the gateway nobody here knows. */
function isGone ({ config }: Pick<OperatorContext, 'config'>, route: string): boolean {
  const inboxes = inboxesOf(config.routes)
  return inboxes.length > 0 && !inboxes.some(({ name }) => name === route)
}

/** A route that is in no configuration any more, and has no message, is in no list either. */
async function after (context: OperatorContext, name: string, done: string): Promise<PausedJson> {
  const unlisted = { ...EMPTY, route: name, configured: false, paused: null }
  const route = await shownNow(async () => (await inboxRoutes(context)).routes.find((each) => each.route === name) ?? unlisted)
  return { done, route }
}

export const GroupsView = Type.Object({
  groups: Type.Array(Type.Object({
    group: Type.String({ description: 'SHA-256 of the route and the group, base64url.' }),
    open: Type.Integer({ description: 'Messages that are waiting, being delivered, held or dead.' }),
    oldestMs: Type.Number(),
    first: Type.Object({ id: Id, state: MessageStateName }, { ...closed, description: 'The message that goes first.' })
  }, closed), { description: 'Those with the most open messages.' }),
  whole: Type.Boolean({ description: 'false: they could not be counted in time.' })
}, closed)

/** More are a matter of a search for their messages. */
export const GROUPS_MAX = 50

export async function inboxGroups ({ stores }: OperatorContext, route: string): Promise<Static<typeof GroupsView>> {
  const groups = await stores.operator.groups(route, GROUPS_MAX)
  return {
    whole: groups !== null,
    groups: (groups ?? []).map(({ group, open, oldestMs, first: { id, state } }) => ({
      group: group.toString('base64url'),
      open,
      oldestMs,
      first: { id: id.toString('base64url'), state }
    }))
  }
}
