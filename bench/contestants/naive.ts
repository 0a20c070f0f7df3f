/**
 * The idempotency layer as most people write it: a flag in Redis that is set if it is absent, a row that is inserted, the
 * request, the row updated, the answer put where the flag was. Every step by itself, on drivers as they come. It loses its
 * keys to crashes and time-outs in all the ways that onceway does not; what it costs is what is compared.
 */
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import { createHash } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import type { Readable } from 'node:stream'
import pg from 'pg'

const { UPSTREAM = '', DATABASE_URL = '', REDIS_URL = '', PREFIX = '' } = process.env

/** The pool's own default. */
const CONNECTIONS = 10
const REMEMBERED_SECONDS = 24 * 3_600
const RUNNING = 'running'

interface Answer { readonly status: number, readonly type: string, readonly body: string }
interface Row { readonly status: number | null, readonly type: string | null, readonly body: string | null }

const redis = new Redis(REDIS_URL)
const database = new pg.Pool({ connectionString: DATABASE_URL, max: CONNECTIONS })
await database.query('create table if not exists answers (id text primary key, fingerprint text not null, status int, type text, body text, created_at timestamptz not null default now())')

const server = Fastify({ logger: false })
await server.register(replyFrom, { base: UPSTREAM })
server.post('/*', async (request, reply) => {
  const id = digest(`${request.headers.authorization} ${String(request.headers['idempotency-key'])}`)
  const first = await redis.set(PREFIX + id, RUNNING, 'EX', REMEMBERED_SECONDS, 'NX')
  if (first === null) return replay(id, reply)
  await database.query('insert into answers (id, fingerprint) values ($1, $2)', [id, digest(JSON.stringify(request.body))])
  reply.from(request.url, { onResponse: (_request, _reply, response) => { void keep(id, request, reply, response as never) } })
  return reply
})
console.log(`listens on ${await server.listen({ host: '127.0.0.1', port: 0 })}`)

async function keep (id: string, request: FastifyRequest, reply: FastifyReply, response: { readonly stream: Readable }): Promise<void> {
  try {
    const answer: Answer = {
      status: reply.statusCode,
      type: String(reply.getHeader('content-type')),
      body: (await buffer(response.stream)).toString()
    }
    await database.query(
      'update answers set status = $2, type = $3, body = $4 where id = $1',
      [id, answer.status, answer.type, answer.body]
    )
    await redis.set(PREFIX + id, JSON.stringify(answer), 'EX', REMEMBERED_SECONDS)
    void reply.send(answer.body)
  } catch (error) {
    console.error(`${request.url}: ${String(error)}`)
    void reply.code(500).send()
  }
}

async function replay (id: string, reply: FastifyReply): Promise<FastifyReply> {
  const copy = await redis.get(PREFIX + id)
  const answer = copy === RUNNING ? null : copy === null ? await rowOf(id) : JSON.parse(copy) as Answer
  if (answer === null) return reply.code(409).send()
  return reply.code(answer.status).type(answer.type).send(answer.body)
}

async function rowOf (id: string): Promise<Answer | null> {
  const { rows: [row] } = await database.query<Row>('select status, type, body from answers where id = $1', [id])
  return row === undefined || row.status === null ? null : row as Answer
}

function digest (text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
