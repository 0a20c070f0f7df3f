/** The OpenAPI document of the operator API, made of its table of operations. `npm run generate` writes it. */
import fastifySwagger from '@fastify/swagger'
import Fastify from 'fastify'
import { AuditPage, AuditView } from '../src/operator/audit/audit.ts'
import { ExplanationView } from '../src/operator/explanation.ts'
import { InboxRouteView, InboxView } from '../src/operator/inbox/routes.ts'
import { ChangedMessage, MessageView, MessagesPage } from '../src/operator/inbox/schemas.ts'
import { OPERATIONS, type Operation } from '../src/operator/operations.ts'
import { OverviewView } from '../src/operator/overview/overview.ts'
import { StepView } from '../src/operator/records/bulk.ts'
import { ChangedRecord, RecordsPage, RecordSummaryView, RecordView, RetryView } from '../src/operator/records/schemas.ts'
import { OPERATOR_PROBLEMS } from '../src/operator/shared/problem.ts'
import { EXPORTS, exportQuery } from '../src/http/api/exports.ts'

const PROBLEM = {
  type: 'object',
  description: 'RFC 9457. Some have more members, for example `now`: how the record is now.',
  required: ['type', 'title', 'status', 'detail', 'code'],
  properties: {
    type: { type: 'string' },
    title: { type: 'string' },
    status: { type: 'integer' },
    detail: { type: 'string' },
    code: { type: 'string', enum: Object.keys(OPERATOR_PROBLEMS) }
  }
} as const

const STATUSES = {
  read: [400, 401, 403, 404, 429, 500, 503],
  change: [400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 503]
} as const

export async function openapiText (): Promise<string> {
  const app = Fastify()
  await app.register(fastifySwagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'onceway operator API',
        version: '1',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
        description: 'Under /api/v1 on the admin port. Each operation names the role that it needs; each role may do everything that the one before it may: viewer, reader, operator, admin. With a session cookie, or behind a proxy that signs people in, a change needs the header x-csrf-token: csrfToken of GET /me.'
      },
      servers: [{ url: '/api/v1' }],
      components: {
        securitySchemes: {
          token: { type: 'http', scheme: 'bearer', description: 'A token of admin.auth.tokensFile, or admin.token.' },
          session: { type: 'apiKey', in: 'cookie', name: 'onceway-session', description: 'Of a browser that has signed in at /sign-in.' }
        }
      },
      security: [{ token: [] }, { session: [] }]
    }
  })
  for (const [name, operation] of Object.entries(OPERATIONS)) addOperation(app, name, operation as unknown as Operation)
  for (const [path, { operation }] of Object.entries(EXPORTS)) addExport(app, path, OPERATIONS[operation] as unknown as Operation)
  addEvents(app)
  await app.ready()
  return `${JSON.stringify(withComponents(app.swagger() as unknown as Tree), null, 2)}\n`
}

type Tree = Readonly<Record<string, unknown>>

/** Shapes that occur in several places, by the names that generated clients give them. The larger ones come first. */
const NAMED: Readonly<Record<string, object>> = {
  Overview: OverviewView,
  Explanation: ExplanationView,
  ChangedRecord,
  RecordsPage,
  Record: RecordView,
  RecordSummary: RecordSummaryView,
  ChangedMessage,
  MessagesPage,
  Message: MessageView,
  AuditPage,
  AuditEntry: AuditView,
  Inbox: InboxView,
  InboxRoute: InboxRouteView,
  Step: StepView,
  Retry: RetryView,
  Problem: PROBLEM
}

/** Replaces each occurrence of a named shape by a reference to it. */
function withComponents (document: Tree): Tree {
  const names = new Map(Object.entries(NAMED).map(([name, shape]) => [JSON.stringify(shape), name]))
  const refer = (value: unknown, isTop = false): unknown => {
    if (Array.isArray(value)) return value.map((item) => refer(item))
    if (typeof value !== 'object' || value === null) return value
    const name = isTop ? undefined : names.get(JSON.stringify(value))
    if (name !== undefined) return { $ref: `#/components/schemas/${name}` }
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, refer(member)]))
  }
  const schemas = Object.fromEntries(Object.entries(NAMED).map(([name, shape]) => [name, refer(JSON.parse(JSON.stringify(shape)), true)]))
  const { components, ...rest } = document
  return { ...refer(rest) as Tree, components: { ...components as Tree, schemas } }
}

function addOperation (
  app: ReturnType<typeof Fastify>,
  name: string,
  { method, path, tag, summary, role, params, query, body, answer }: Operation
): void {
  app.route({
    method,
    url: path.replaceAll(/\{(\w+)\}/g, ':$1'),
    schema: {
      operationId: name,
      summary,
      description: `Needs the role ${role}.`,
      tags: [tag],
      ...(Object.keys(params.properties).length > 0 && { params }),
      ...(Object.keys(query.properties).length > 0 && { querystring: query }),
      ...(method === 'POST' && { body }),
      response: {
        200: { description: 'As asked for.', content: { 'application/json': { schema: answer } } },
        ...problems(method === 'POST' ? STATUSES.change : STATUSES.read)
      }
    },
    handler: () => null
  })
}

function addExport (app: ReturnType<typeof Fastify>, path: string, operation: Operation): void {
  const { role, tag, summary } = operation
  app.get(path, {
    schema: {
      operationId: `export${path.slice(1, 2).toUpperCase()}${path.slice(2, -'.jsonl'.length)}`,
      summary: `${summary.replace(/, a page at a time\.|\.$/, '')}, all pages as JSON lines.`,
      description: `Needs the role ${role}. Each line is a row of the page. If not everything is there, the last line has \`incomplete\`.`,
      tags: [tag],
      querystring: exportQuery(operation),
      response: {
        200: { description: 'JSON lines.', content: { 'application/jsonl': { schema: { type: 'string' } } } },
        ...problems(STATUSES.read)
      }
    },
    handler: () => null
  })
}

function addEvents (app: ReturnType<typeof Fastify>): void {
  app.get('/events', {
    schema: {
      operationId: 'listen',
      summary: 'How things stand, told again whenever it changes (server-sent events).',
      description: 'Needs the role viewer. Events: `unknown-outcomes`, `dead-letters`, `paused-inboxes`, `promise`. Each has a whole state, so a client that was away misses nothing.',
      tags: ['gateway'],
      response: {
        200: { description: 'A stream of events.', content: { 'text/event-stream': { schema: { type: 'string' } } } },
        ...problems(STATUSES.read)
      }
    },
    handler: () => null
  })
}

function problems (statuses: readonly number[]): object {
  return Object.fromEntries(statuses.map((status) => [status, {
    description: 'A problem.',
    content: { 'application/problem+json': { schema: PROBLEM } }
  }]))
}
