/**
 * What no durable inbox on Node and Postgres can be below: a message is accepted by one commit, taken by a second and settled by
 * a third, each in a lane. Sent by undici's dispatch. No retries, no order, no leases that end. Wrong after every fault.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type pg from 'pg'
import { Pool } from 'undici'
import type { Dispatcher } from 'undici'
import { ACCEPTED } from '../exchange.ts'
import { headOf, respondAtEndOfTurn, serve } from './floor/http.ts'
import { Lane } from './floor/lane.ts'
import type { Entry } from './floor/lane.ts'
import { bigints, byteas, changed, connect, texts } from './floor/postgres.ts'

const { UPSTREAM = '', DATABASE_URL = '', DELIVERIES = '1' } = process.env

/** Half of each page stays free, so that taking and settling find room beside the row that they change (heap-only). */
const TABLE = `create table if not exists floor_messages (
  number bigint generated always as identity primary key, id bytea not null unique, state smallint not null,
  lease_until timestamptz, path text not null, headers text not null, body bytea not null
) with (fillfactor = 50)`
const ACCEPT = `insert into floor_messages (id, state, path, headers, body)
select w.id, 0, w.path, w.headers, w.body
  from unnest($1::bytea[], $2::text[], $3::text[], $4::bytea[]) as w (id, path, headers, body)
    on conflict (id) do nothing`
/** One process takes, and one batch at a time is accepted. So numbers become visible in their order, and none is passed over. */
const TAKE = `update floor_messages set state = 1, lease_until = clock_timestamp() + interval '30 seconds'
 where number = any (array(select number from floor_messages where number > $1 order by number limit $2)) and state = 0
returning number, path, headers, body`
const SETTLE = `update floor_messages m set state = 2
  from unnest($1::bigint[]) as w (number)
 where m.number = w.number and m.state = 1`
const RESPONSE = '{"accepted":true}'
const RESPONSE_HEADERS = ['Content-Type', 'application/json', 'Content-Length', String(RESPONSE.length)]
const NOT_FORWARDED = new Set(['host', 'connection', 'content-length'])

const [accepting, taking, settling] = [await connect(DATABASE_URL), await connect(DATABASE_URL), await connect(DATABASE_URL)]
await accepting.query(TABLE)
const places = Number(DELIVERIES)
const upstream = new Pool(UPSTREAM, { connections: places, pipelining: 1 })

class Message implements Entry {
  readonly name: string
  readonly id: Buffer
  readonly path: string
  readonly headers: string
  readonly body: Buffer
  readonly #response: ServerResponse

  constructor ({ rawHeaders, url = '/' }: IncomingMessage, response: ServerResponse, body: Buffer) {
    const { forwarded: headers, key, caller } = headOf(rawHeaders, NOT_FORWARDED)
    this.name = hash('sha256', `${caller}\0${key}`, 'hex')
    this.id = Buffer.from(this.name, 'hex')
    this.path = url
    this.headers = JSON.stringify(headers)
    this.body = body
    this.#response = response
  }

  done (error: Error | null): void {
    if (error !== null) {
      this.#response.writeHead(500).end(String(error))
      return
    }
    waiting++
    respondAtEndOfTurn(this)
    deliver()
  }

  respond (): void {
    this.#response.writeHead(ACCEPTED, RESPONSE_HEADERS).end(RESPONSE)
  }
}

/** One that is taken: its row as Postgres sends it, the handler of its request, and an entry of the lane that settles. */
class Delivery implements Entry, Dispatcher.DispatchHandler {
  readonly name: string
  readonly number: bigint
  readonly #row: Row
  #status = 0

  constructor (row: Row) {
    this.#row = row
    this.name = row[0]
    this.number = BigInt(row[0])
  }

  send (): void {
    const [, path, headers, body] = this.#row
    upstream.dispatch({ method: 'POST', path, headers: JSON.parse(headers) as string[], body }, this)
  }

  onRequestStart (): void {}
  onResponseStart (_controller: Dispatcher.DispatchController, status: number): void { this.#status = status }
  onResponseData (): void {}

  onResponseEnd (): void {
    if (this.#status >= 300) this.#fail(new Error(`the consumer says ${this.#status}`))
    else settles.push(this)
    underWay--
    deliver()
  }

  onResponseError (_controller: Dispatcher.DispatchController, error: Error): void {
    this.#fail(error)
    underWay--
    deliver()
  }

  done (error: Error | null): void {
    if (error !== null) this.#fail(error)
  }

  #fail (error: Error): void {
    console.error(String(error))
  }
}

type Row = [number: string, path: string, headers: string, body: Buffer]

const accepts = new Lane<Message>((batch, done) => {
  const values = [
    byteas(batch, ({ id }) => id), texts(batch, ({ path }) => path), texts(batch, ({ headers }) => headers),
    byteas(batch, ({ body }) => body)
  ]
  accepting.query({ name: 'accept', text: ACCEPT, values }, changed(batch.length, done))
})
const settles = new Lane<Delivery>((batch, done) => {
  settling.query({ name: 'settle', text: SETTLE, values: [bigints(batch, ({ number }) => number)] }, changed(batch.length, done))
})

/** Accepted and not taken. */
let waiting = 0
/** Taken and not answered. */
let underWay = 0
let lastTaken = 0n
let takes = false
let held = false
process.on('SIGUSR2', () => { held = true; console.log('deliveries are held') })
process.on('SIGHUP', () => { held = false; console.log('deliveries are free'); deliver() })

/** At the end of the turn of the event loop, so that one statement takes for all places that this turn has freed. */
function deliver (): void {
  if (takes || held || waiting === 0 || underWay === places) return
  takes = true
  setImmediate(take)
}

function take (): void {
  const values = [String(lastTaken), Math.min(waiting, places - underWay)]
  taking.query({ name: 'take', text: TAKE, rowMode: 'array', values }, (error: Error | null, result: pg.QueryArrayResult<Row>) => {
    if (error !== null) throw error
    takes = false
    waiting -= result.rows.length
    underWay += result.rows.length
    for (const row of result.rows) {
      const delivery = new Delivery(row)
      if (delivery.number > lastTaken) lastTaken = delivery.number
      delivery.send()
    }
    deliver()
  })
}

serve((request, response, body) => { accepts.push(new Message(request, response, body)) })
