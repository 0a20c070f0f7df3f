/**
 * Every operation of the operator API as one table: method, path, role, shapes and function. The HTTP API serves it, its OpenAPI document
 * is made of it, and the commands call it here or at a remote gateway.
 */
import { Type } from 'typebox'
import type { Static, TObject, TSchema } from 'typebox'
import { AuditPage, AuditQuery, searchAudit } from './audit/audit.ts'
import type { OperationContext } from './context.ts'
import { ExplainBody, ExplanationView, explainRequest } from './explanation.ts'
import { changeMessage, changeMessages, selectMessages } from './inbox/changes.ts'
import { GroupsView, inboxGroups, inboxRoutes, InboxView, PausedView, pauseRoute, resumeRoute } from './inbox/routes.ts'
import {
  ChangedMessage, MessageBulkBody, MessageChangeBody, MessageDetailView, MessageFilterQuery, MessageQuery, MessageSelectionView,
  MessagesPage, ReasonBody
} from './inbox/schemas.ts'
import { searchMessages, showMessage } from './inbox/search.ts'
import { detailShownTo, shownTo } from './inbox/shown.ts'
import { ConfigurationView, OverviewView, showConfiguration, showOverview } from './overview/overview.ts'
import { BulkBody, changeRecords, SelectionBody, SelectionView, selectRecords, StepView } from './records/bulk.ts'
import { deleteRecord, probeRecord, releaseRecord, resolveRecord } from './records/changes.ts'
import {
  AnswerView, ChangedRecord, RecordQuery, RecordsPage, RecordView, ReleaseBody, ResolveBody, TokenBody
} from './records/schemas.ts'
import { searchRecords, showAnswer, showRecord } from './records/search.ts'
import { IDENTITY_SOURCES, ROLES } from '../core/operator/roles.ts'
import type { Identity, Role } from '../core/operator/roles.ts'
import { OperatorProblem, type Outcome } from './shared/problem.ts'
import { closed, Id, Nullable } from './shared/schema-words.ts'

const NONE = Type.Object({}, closed)

export interface Input<Params, Query, Body> { readonly params: Params, readonly query: Query, readonly body: Body }

export interface Operation<
  Params extends TObject = TObject,
  Query extends TObject = TObject,
  Body extends TObject = TObject,
  Answer extends TSchema = TSchema
> {
  readonly method: 'GET' | 'POST'
  /** Below `/api/v1`. Parameters as `{name}`. */
  readonly path: string
  readonly tag: 'records' | 'inbox' | 'audit' | 'gateway' | 'session'
  readonly summary: string
  /** What an identity needs, at least. */
  readonly role: Role
  readonly params: Params
  readonly query: Query
  readonly body: Body
  readonly answer: Answer
  /** @throws as the store does */
  readonly run: (
    context: OperationContext,
    identity: Identity,
    input: Input<Static<Params>, Static<Query>, Static<Body>>
  ) => Promise<Outcome<Static<Answer>>>
}

type Given<Params extends TObject, Query extends TObject, Body extends TObject, Answer extends TSchema> =
  Omit<Operation<Params, Query, Body, Answer>, 'params' | 'query' | 'body'> & {
    readonly params?: Params,
    readonly query?: Query,
    readonly body?: Body
  }

function operation<
  Answer extends TSchema,
  Params extends TObject = typeof NONE,
  Query extends TObject = typeof NONE,
  Body extends TObject = typeof NONE
> (
  given: Given<Params, Query, Body, Answer>
): Operation<Params, Query, Body, Answer> {
  return { params: NONE as unknown as Params, query: NONE as unknown as Query, body: NONE as unknown as Body, ...given }
}

const OfId = Type.Object({ id: Id }, closed)
const OfRoute = Type.Object({ route: Type.String({ minLength: 1, maxLength: 1024 }) }, closed)

const IdentityView = Type.Object({
  name: Type.String(),
  via: Type.Enum([...IDENTITY_SOURCES]),
  role: Type.Enum([...ROLES]),
  csrfToken: Nullable(Type.String({
    description: 'For the header `x-csrf-token` of each change, with a session or behind a proxy that signs people in. null: none is needed.'
  }))
}, closed)

export const OPERATIONS = {
  whoAmI: operation({
    method: 'GET',
    path: '/me',
    tag: 'session',
    role: 'viewer',
    summary: 'Who you are, your role, and the CSRF token of your session.',
    answer: IdentityView,
    // Only the port where somebody has signed in knows the token.
    run: (_context, { name, via, role }) => Promise.resolve({ name, via, role, csrfToken: null })
  }),
  showOverview: operation({
    method: 'GET',
    path: '/overview',
    tag: 'gateway',
    role: 'viewer',
    summary: 'This gateway and its stores on one page.',
    answer: OverviewView,
    run: (context) => showOverview(context)
  }),
  showConfiguration: operation({
    method: 'GET',
    path: '/configuration',
    tag: 'gateway',
    role: 'viewer',
    summary: 'The configuration that runs, with secrets masked, and the last reload.',
    answer: ConfigurationView,
    run: (context) => Promise.resolve(showConfiguration(context))
  }),
  explain: operation({
    method: 'POST',
    path: '/explain',
    tag: 'gateway',
    role: 'viewer',
    summary: 'What a request would get now, and why. Nothing is executed.',
    body: ExplainBody,
    answer: ExplanationView,
    run: async (context, identity, { body }) => {
      const explained = await explainRequest(context, body)
      if (explained instanceof OperatorProblem || explained.message === null) return explained
      return { ...explained, message: shownTo(identity, explained.message) }
    }
  }),
  searchRecords: operation({
    method: 'GET',
    path: '/records',
    tag: 'records',
    role: 'viewer',
    summary: 'Search for records, a page at a time.',
    query: RecordQuery,
    answer: RecordsPage,
    run: (context, _identity, { query }) => searchRecords(context, query)
  }),
  showRecord: operation({
    method: 'GET',
    path: '/records/{id}',
    tag: 'records',
    role: 'viewer',
    summary: 'One record: its history, and what may be done with it.',
    params: OfId,
    answer: RecordView,
    run: (context, _identity, { params }) => showRecord(context, params.id)
  }),
  showAnswer: operation({
    method: 'GET',
    path: '/records/{id}/answer',
    tag: 'records',
    role: 'reader',
    summary: 'The stored answer of a record.',
    params: OfId,
    answer: AnswerView,
    run: (context, _identity, { params }) => showAnswer(context, params.id)
  }),
  resolveRecord: operation({
    method: 'POST',
    path: '/records/{id}/resolve',
    tag: 'records',
    role: 'operator',
    summary: 'The request of an unknown outcome was executed: retries get this answer.',
    params: OfId,
    body: ResolveBody,
    answer: ChangedRecord,
    run: (context, identity, { params, body }) => resolveRecord(context, identity, params.id, body)
  }),
  releaseRecord: operation({
    method: 'POST',
    path: '/records/{id}/release',
    tag: 'records',
    role: 'operator',
    summary: 'The request of an unknown outcome was not executed: its key can run again.',
    params: OfId,
    body: ReleaseBody,
    answer: ChangedRecord,
    run: (context, identity, { params, body }) => releaseRecord(context, identity, params.id, body)
  }),
  deleteRecord: operation({
    method: 'POST',
    path: '/records/{id}/delete',
    tag: 'records',
    role: 'operator',
    summary: 'Forget a settled record: its key can run again.',
    params: OfId,
    body: TokenBody,
    answer: ChangedRecord,
    run: (context, identity, { params, body }) => deleteRecord(context, identity, params.id, body)
  }),
  probeRecord: operation({
    method: 'POST',
    path: '/records/{id}/probe',
    tag: 'records',
    role: 'operator',
    summary: 'Ask the upstream now what became of the request.',
    params: OfId,
    body: TokenBody,
    answer: ChangedRecord,
    run: (context, identity, { params, body }) => probeRecord(context, identity, params.id, body)
  }),
  selectRecords: operation({
    method: 'POST',
    path: '/records/selections',
    tag: 'records',
    role: 'operator',
    summary: 'Count what a filter finds, for a change of all of it.',
    body: SelectionBody,
    answer: SelectionView,
    run: (context, identity, { body }) => selectRecords(context, identity, body)
  }),
  changeRecords: operation({
    method: 'POST',
    path: '/records/changes',
    tag: 'records',
    role: 'operator',
    summary: 'Change what was counted, one step. Go on with `next`, or stop.',
    body: BulkBody,
    answer: StepView,
    run: (context, identity, { body }) => changeRecords(context, identity, body)
  }),
  showInbox: operation({
    method: 'GET',
    path: '/inbox',
    tag: 'inbox',
    role: 'viewer',
    summary: 'Depth and age of the inbox by route, and what is paused.',
    answer: InboxView,
    run: (context) => inboxRoutes(context)
  }),
  showGroups: operation({
    method: 'GET',
    path: '/inbox/routes/{route}/groups',
    tag: 'inbox',
    role: 'viewer',
    summary: 'The groups of a route with the most open messages.',
    params: OfRoute,
    answer: GroupsView,
    run: (context, _identity, { params }) => inboxGroups(context, params.route)
  }),
  pauseRoute: operation({
    method: 'POST',
    path: '/inbox/routes/{route}/pause',
    tag: 'inbox',
    role: 'operator',
    summary: 'Go on accepting, and deliver nothing.',
    params: OfRoute,
    body: ReasonBody,
    answer: PausedView,
    run: (context, identity, { params, body }) => pauseRoute(context, identity, params.route, body.reason)
  }),
  resumeRoute: operation({
    method: 'POST',
    path: '/inbox/routes/{route}/resume',
    tag: 'inbox',
    role: 'operator',
    summary: 'Deliver again.',
    params: OfRoute,
    body: ReasonBody,
    answer: PausedView,
    run: (context, identity, { params, body }) => resumeRoute(context, identity, params.route, body.reason)
  }),
  searchMessages: operation({
    method: 'GET',
    path: '/messages',
    tag: 'inbox',
    role: 'viewer',
    summary: 'Search for messages, a page at a time.',
    query: MessageQuery,
    answer: MessagesPage,
    run: async (context, identity, { query }) => {
      const page = await searchMessages(context, query)
      return page instanceof OperatorProblem ? page : { ...page, messages: page.messages.map((each) => shownTo(identity, each)) }
    }
  }),
  showMessage: operation({
    method: 'GET',
    path: '/messages/{id}',
    tag: 'inbox',
    role: 'viewer',
    summary: 'One message, and what each of its deliveries came to.',
    params: OfId,
    answer: MessageDetailView,
    run: async (context, identity, { params }) => {
      const message = await showMessage(context, params.id)
      return message instanceof OperatorProblem ? message : detailShownTo(identity, message)
    }
  }),
  retryMessage: operation({
    method: 'POST',
    path: '/messages/{id}/retry',
    tag: 'inbox',
    role: 'operator',
    summary: 'Deliver a message again at once. In a group it waits for its turn.',
    params: OfId,
    body: MessageChangeBody,
    answer: ChangedMessage,
    run: (context, identity, { params, body }) => changeMessage(context, identity, 'retry', params.id, body)
  }),
  discardMessage: operation({
    method: 'POST',
    path: '/messages/{id}/discard',
    tag: 'inbox',
    role: 'operator',
    summary: 'Never deliver a message. Its group goes on.',
    params: OfId,
    body: MessageChangeBody,
    answer: ChangedMessage,
    run: (context, identity, { params, body }) => changeMessage(context, identity, 'discard', params.id, body)
  }),
  replayMessage: operation({
    method: 'POST',
    path: '/messages/{id}/replay',
    tag: 'inbox',
    role: 'operator',
    summary: 'Deliver a delivered message once more, as long as its request is kept.',
    params: OfId,
    body: MessageChangeBody,
    answer: ChangedMessage,
    run: (context, identity, { params, body }) => changeMessage(context, identity, 'replay', params.id, body)
  }),
  selectMessages: operation({
    method: 'POST',
    path: '/messages/selections',
    tag: 'inbox',
    role: 'operator',
    summary: 'Count what a filter finds, for a change of all of it.',
    body: MessageFilterQuery,
    answer: MessageSelectionView,
    run: (context, identity, { body }) => selectMessages(context, identity, body)
  }),
  changeMessages: operation({
    method: 'POST',
    path: '/messages/changes',
    tag: 'inbox',
    role: 'operator',
    summary: 'Change what was counted, one step. Go on with `next`, or stop.',
    body: MessageBulkBody,
    answer: StepView,
    run: (context, identity, { body }) => changeMessages(context, identity, body)
  }),
  searchAudit: operation({
    method: 'GET',
    path: '/audit',
    tag: 'audit',
    role: 'viewer',
    summary: 'Who changed what by hand, when and why.',
    query: AuditQuery,
    answer: AuditPage,
    run: (context, _identity, { query }) => searchAudit(context, query)
  })
} as const

export type OperationName = keyof typeof OPERATIONS
export type InputOf<Name extends OperationName> = Parameters<typeof OPERATIONS[Name]['run']>[2]
export type AnswerOf<Name extends OperationName> = Static<typeof OPERATIONS[Name]['answer']>
