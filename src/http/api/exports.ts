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
import { within } from '../../operator/shared/within.ts'
import { EXPORT_WITHIN_MS, ExportPlace, PAGES_WITHIN_MS } from '../shared/exports.ts'
import type { Operator } from '../sign-in/authenticated.ts'

export interface ExportsOptions {
  readonly context: () => Promise<OperationContext>
  readonly permitted: (request: FastifyRequest, operation: Operation) => Promise<Operator | OperatorProblem>
  readonly sendProblem: (reply: FastifyReply, problem: OperatorProblem) => FastifyReply
  /** What an error is for whoever asked. The log has it if it is a bug. */
  readonly problemOf: (error: unknown, request: FastifyRequest) => OperatorProblem
  /** How long a page may take, whatever the store does. */
  readonly pageWithinMs: number
}

/** By path: the search, and where its answer has the rows. */
export const EXPORTS = {
  '/records.jsonl': { operation: 'searchRecords', rows: 'records' },
  '/messages.jsonl': { operation: 'searchMessages', rows: 'messages' },
  '/audit.jsonl': { operation: 'searchAudit', rows: 'entries' }
} as const

/** A larger export is made in parts, by time. */
export const EXPORT_ROWS_MAX = 100_000

export function addExports (fastify: FastifyInstance, options: ExportsOptions): void {
  for (const [path, { operation: name, rows }] of Object.entries(EXPORTS)) {
    const operation = OPERATIONS[name] as unknown as Operation
    fastify.get(path, { schema: { querystring: exportQuery(operation) } }, async (request, reply) => {
      const who = await options.permitted(request, operation)
      if (who instanceof OperatorProblem) return options.sendProblem(reply, who)
      const { limit = EXPORT_ROWS_MAX, ...query } = request.query as { readonly limit?: number }
      // Not before it is sent: a problem is no file.
      const file = (rows: Readable): FastifyReply => reply.header('cache-control', 'no-store').header('content-type', 'application/jsonl')
        .header('content-disposition', `attachment; filename="${path.slice(1)}"`).send(rows)
      // Only the head is wanted, so nothing is read. A stream has no length that the head could have.
      if (request.method === 'HEAD') return file(Readable.from([]))
      const place = ExportPlace.take()
      if (place instanceof OperatorProblem) return options.sendProblem(reply, place)
      const pages = new Pages({ operation, identity: who.identity, query, limit, member: rows, place, request, options })
      const stream = await begun(pages, place)
      return stream instanceof OperatorProblem ? options.sendProblem(reply, stream) : file(stream)
    })
  }
}

/** A mistake in the query, or a store that is away, is told before the first byte. */
async function begun (pages: Pages, place: ExportPlace): Promise<Readable | OperatorProblem> {
  let first: Rows | OperatorProblem | null = null
  try {
    first = await pages.first()
  } finally {
    if (first === null || first instanceof OperatorProblem) place.giveBack()
  }
  return first instanceof OperatorProblem ? first : streamOf(linesOf(pages, first), place)
}

/** Nobody may ever pull it, so a timer ends it. Its place is free when the page that is being read has come. */
function streamOf (lines: AsyncIterable<string>, place: ExportPlace): Readable {
  const stream = Readable.from(lines)
  const timer = setTimeout(() => { stream.destroy() }, EXPORT_WITHIN_MS).unref()
  stream.once('close', () => {
    clearTimeout(timer)
    place.giveBack()
  })
  return stream
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

interface Wanted {
  readonly operation: Operation
  readonly identity: Identity
  readonly query: object
  readonly limit: number
  /** Where the answer has the rows. */
  readonly member: string
  readonly place: ExportPlace
  readonly request: FastifyRequest
  readonly options: Pick<ExportsOptions, 'context' | 'problemOf' | 'pageWithinMs'>
}

class Pages {
  readonly #wanted: Wanted

  constructor (wanted: Wanted) { this.#wanted = wanted }

  /** @throws as the store does */
  async first (): Promise<Rows | OperatorProblem> { return this.#read(null, 0) }

  /** Behind `count` rows. A text: why there is no further page. */
  async next (cursor: string, count: number): Promise<Rows | string> {
    const { limit, place, request, options } = this.#wanted
    if (count >= limit) return `this export has ${limit} rows at most`
    if (place.isLate) return `this export reads for ${PAGES_WITHIN_MS / MINUTE_MS} minutes at most`
    try {
      const found = await this.#read(cursor, count)
      return found instanceof OperatorProblem ? found.detail : found
    } catch (error) {
      // The status has long been sent.
      return options.problemOf(error, request).detail
    }
  }

  async #read (cursor: string | null, count: number): Promise<Rows | OperatorProblem> {
    const { operation, identity, query, limit, member, options } = this.#wanted
    const page = { ...query, limit: Math.min(PAGE_MAX, limit - count), ...(cursor !== null && { cursor }) }
    const input = { params: {}, query: page, body: {} } as Parameters<Operation['run']>[2]
    const found = await within(options.pageWithinMs, async () => operation.run(await options.context(), identity, input))
    if (found instanceof OperatorProblem) return found
    const { [member]: rows, next } = found as Readonly<Record<string, unknown>>
    return { rows: rows as readonly object[], next: next as string | null }
  }
}

const MINUTE_MS = 60_000

/** If not everything is in the export, the last line says so, and where to go on. */
async function * linesOf (pages: Pages, first: Rows): AsyncGenerator<string> {
  let count = 0
  for (let page = first; ;) {
    count += page.rows.length
    yield page.rows.map((row) => `${JSON.stringify(row)}\n`).join('')
    if (page.next === null) return
    const next = await pages.next(page.next, count)
    if (typeof next === 'string') return yield `${JSON.stringify({ incomplete: next, next: page.next })}\n`
    page = next
  }
}
