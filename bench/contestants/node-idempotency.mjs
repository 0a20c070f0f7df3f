/** @node-idempotency/core with its Redis adapter, around reply.from of @fastify/reply-from. Nothing in it is durable. */
import { Idempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import replyFrom from '@fastify/reply-from'
import Fastify from 'fastify'
import { buffer } from 'node:stream/consumers'

const { UPSTREAM, REDIS_URL, PREFIX } = process.env

const storage = new RedisStorageAdapter({ url: REDIS_URL })
await storage.connect()
const idempotency = new Idempotency(storage, { cacheKeyPrefix: PREFIX })

const server = Fastify({ logger: false })
await server.register(replyFrom, { base: UPSTREAM })
server.post('/*', async (request, reply) => {
  const asked = { headers: request.headers, path: request.url, method: request.method, body: request.body }
  const kept = await idempotency.onRequest(asked)
  if (kept !== undefined) return reply.code(kept.additional.status).type(kept.additional.type).send(kept.body)
  reply.from(request.url, { onResponse: (_request, _reply, response) => { keep(asked, reply, response) } })
  return reply
})
console.log(`listens on ${await server.listen({ host: '127.0.0.1', port: 0 })}`)

async function keep (asked, reply, { stream }) {
  try {
    const body = (await buffer(stream)).toString()
    await idempotency.onResponse(asked, { body, additional: { status: reply.statusCode, type: reply.getHeader('content-type') } })
    reply.send(body)
  } catch (error) {
    console.error(String(error))
    reply.code(500).send()
  }
}
