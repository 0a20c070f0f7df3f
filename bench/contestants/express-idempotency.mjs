/**
 * express-idempotency on Express, around a fetch. Its own store looks through an array for every key, and says of itself
 * that it is not for production: here it is given the quickest store that can be had, a Map in the process.
 */
import express from 'express'
import { getSharedIdempotencyService, idempotency } from 'express-idempotency'

const { UPSTREAM } = process.env

/** An unbounded Map would run out of memory before the run is over; the oldest go, which nobody asks for any more. */
const KEPT_MAX = 200_000

class MapAdapter {
  #kept = new Map()

  async findByIdempotencyKey (key) { return this.#kept.get(key) ?? null }
  async create (resource) {
    this.#kept.set(resource.idempotencyKey, resource)
    if (this.#kept.size > KEPT_MAX) this.#kept.delete(this.#kept.keys().next().value)
  }

  async update (resource) { this.#kept.set(resource.idempotencyKey, resource) }
  async delete (key) { this.#kept.delete(key) }
}

const app = express()
app.disable('x-powered-by')
app.disable('etag')
app.use(express.text({ type: 'application/json' }))
app.use(idempotency({ dataAdapter: new MapAdapter() }))
app.post('/{*path}', async (request, response) => {
  if (getSharedIdempotencyService().isHit(request)) return
  const headers = Object.fromEntries(['authorization', 'content-type', 'idempotency-key'].map((name) => [name, request.get(name)]))
  const answer = await fetch(UPSTREAM + request.url, { method: 'POST', headers, body: request.body })
  response.status(answer.status).type(answer.headers.get('content-type')).send(await answer.text())
})
const server = app.listen(0, '127.0.0.1', () => { console.log(`listens on http://127.0.0.1:${server.address().port}`) })
