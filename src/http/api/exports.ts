/** Exports of searches as JSON lines (`/api/v1/audit.jsonl?…`), read page by page while the client takes them. */
import { Readable } from 'node:stream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import type { TObject } from 'typebox'
import type { Identity } from '../../core/operator/roles.ts'
import type { OperationContext } from '../../operator/context.ts'
import { OPERATIONS, type Operation } from '../../operator/operations.ts'
import { OperatorProblem } from '../../operator/shared/problem.ts'
import { closed, PAGE_MAX } from '../../operator/shared/schema-words.ts'
import type { Operator } from '../sign-in/authenticated.ts'

export interface ExportsOptions {
  readonly context: () => Promise<OperationContext>
  readonly permitted: (request: FastifyRequest, operation: Operation) => Promise<Operator | OperatorProblem>
  readonly sendProblem: (reply: FastifyReply, problem: OperatorProblem) => FastifyReply
}

/** By path: the search, and where its answer has the rows. */
export const EXPORTS = {
  '/records.jsonl': { operation: 'searchRecords', rows: 'records' },
  '/messages.jsonl': { operation: 'searchMessages', rows: 'messages' },
  '/audit.jsonl': { operation: 'searchAudit', rows: 'entries' }
} as const

/** A larger export is made in parts, by time. */
export const EXPORT_ROWS_MAX = 100_000

export function addExports (fastify: FastifyInstance, { context, permitted, sendProblem }: ExportsOptions): void {
  for (const [path, { operation: name, rows }] of Object.entries(EXPORTS)) {
    const operation = OPERATIONS[name] as unknown as Operation
    fastify.get(path, { schema: { querystring: exportQuery(operation) } }, async (request, reply) => {
      const who = await permitted(request, operation)
      if (who instanceof OperatorProblem) return sendProblem(reply, who)
      const { limit = EXPORT_ROWS_MAX, ...query } = request.query as { readonly limit?: number }
      const head = reply.header('cache-control', 'no-store').header('content-type', 'application/jsonl')
        .header('content-disposition', `attachment; filename="${path.slice(1)}"`)
      // Only the head is wanted, so nothing is read.
      if (request.method === 'HEAD') return head.send('')
      const pages = new Pages(await context(), operation, who.identity, { query, limit }, rows)
      // A mistake in the query, or a store that is away, is told before the first byte.
      const first = await pages.next(null)
      if (first instanceof OperatorProblem) return sendProblem(reply, first)
      return head.send(Readable.from(linesOf(pages, first)))
    })
  }
}

/** That of the search. Its limit is of the whole export, and not of a page. */
export function exportQuery ({ query }: Operation): TObject {
  return Type.Object({
    ...query.properties,
    limit: Type.Optional(Type.Integer({
      minimum: 1, maximum: EXPORT_ROWS_MAX, description: `Rows of the export, at most. Absent: ${EXPORT_ROWS_MAX}.`
    }))
  }, closed)
}

interface Rows { readonly rows: readonly object[], readonly next: string | null }

interface Wanted { readonly query: object, readonly limit: number }

class Pages {
  readonly limit: number
  readonly next: (cursor: string | null, count?: number) => Promise<Rows | OperatorProblem>

  constructor (context: OperationContext, operation: Operation, identity: Identity, { query, limit }: Wanted, member: string) {
    this.limit = limit
    this.next = async (cursor, count = 0) => {
      const page = { ...query, limit: Math.min(PAGE_MAX, limit - count), ...(cursor !== null && { cursor }) }
      const found = await operation.run(context, identity, { params: {}, query: page, body: {} } as Parameters<Operation['run']>[2])
      if (found instanceof OperatorProblem) return found
      const { [member]: rows, next } = found as Readonly<Record<string, unknown>>
      return { rows: rows as readonly object[], next: next as string | null }
    }
  }
}

/** If not everything is in the export, the last line says so, and where to go on. */
async function * linesOf (pages: Pages, first: Rows): AsyncGenerator<string> {
  let count = 0
  for (let page = first; ;) {
    count += page.rows.length
    yield page.rows.map((row) => `${JSON.stringify(row)}\n`).join('')
    if (page.next === null) return
    const next = count >= pages.limit ? null : await pages.next(page.next, count)
    if (next === null || next instanceof OperatorProblem) {
      yield `${JSON.stringify({ incomplete: next === null ? `this export has ${pages.limit} rows at most` : next.detail, next: page.next })}\n`
      return
    }
    page = next
  }
}
