/** Reload after reload under a steady stream of requests, with and without keys: nobody notices. */
import assert from 'node:assert/strict'
import { Agent, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '../harness/eventually.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Behaviour, Seen } from '../harness/witness.ts'
import { fileOf, startReloadable } from './reload-world.ts'

const KEYED_CLIENTS = 8
const KEYLESS_CLIENTS = 4
const RELOADS = 8
/** Between two reloads: every client has been served that often, by the configuration that stands. */
const ROUNDS = 5
/** How long the upstream takes: longer than a reload, so that each one meets requests under way. */
const UPSTREAM_MS = 25
const PROGRESS_WITHIN_MS = 30_000

const SLOWLY: Behaviour = async (...args) => { await pause(UPSTREAM_MS); await CREATED(...args) }

/** One request and its answer; `from`, `until`: the last configuration that was taken before it, and before its end. */
interface Asked {
  readonly name: string
  readonly keyed: boolean
  readonly from: number
  readonly until: number
  readonly status: number
  readonly mark: string | undefined
}

/** A client on a connection of its own, which it keeps. */
class Client {
  readonly agent = new Agent({ keepAlive: true, maxSockets: 1 })
  readonly sockets = new Set<unknown>()
  readonly asked: Asked[] = []
  readonly errors: Error[] = []
  readonly #url: string
  readonly #keyed: boolean
  readonly #id: number

  constructor (url: string, keyed: boolean, id: number) {
    this.#url = url
    this.#keyed = keyed
    this.#id = id
  }

  async run (generation: () => number, stopped: () => boolean): Promise<void> {
    while (!stopped()) {
      const name = `${this.#id}-${this.asked.length}`
      const from = generation()
      try {
        const { status, mark } = await this.#ask(name)
        this.asked.push({ name, keyed: this.#keyed, from, until: generation(), status, mark })
      } catch (error) {
        this.errors.push(error as Error)
        return
      }
    }
    this.agent.destroy()
  }

  async #ask (name: string): Promise<{ status: number, mark: string | undefined }> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
    const asking = request(
      `${this.#url}/things`,
      { method: 'POST', agent: this.agent, headers: this.#keyed ? { 'Idempotency-Key': name } : {} },
      resolve
    )
    asking.on('socket', (socket) => { this.sockets.add(socket) })
    asking.on('error', reject)
    asking.end(name)
    const response = await promise
    await response.resume().toArray()
    return { status: response.statusCode ?? 0, mark: response.headers['idempotency-status'] as string | undefined }
  }
}

describe('a reload under load', () => {
  test('fails no request, drops no connection, and sends every request once, by one configuration as a whole', async (t) => {
    const witnesses = await Promise.all([startWitness(SLOWLY), startWitness(SLOWLY)])
    t.after(async () => { await Promise.all(witnesses.map(async (witness) => witness.close())) })
    // Upstream, its connections, its headers, the route's policy and a limit change together.
    const file = (generation: number): string => fileOf({
      upstream: (witnesses[generation % 2] as typeof witnesses[0]).url,
      upstreamMore: `, connections: ${100 + generation}, requestHeaders: { X-Generation: "${generation}" }`,
      idempotency: `, retention: ${generation + 1}h`,
      more: `log: { level: warn }\nlimits: { executions: ${1000 + generation} }`
    })
    const gateway = await startReloadable(t, file(0))
    let generation = 0
    let stopped = false
    const clients = Array.from({ length: KEYED_CLIENTS + KEYLESS_CLIENTS }, (_, id) => new Client(gateway.url, id < KEYED_CLIENTS, id))
    const running = clients.map(async (client) => client.run(() => generation, () => stopped))
    const served = async (): Promise<void> => {
      const before = clients.map(({ asked }) => asked.length)
      await eventually(() => clients.every(({ asked, errors }, index) =>
        errors.length > 0 || asked.length >= (before[index] ?? 0) + ROUNDS), 'everybody is served', PROGRESS_WITHIN_MS)
    }
    await served()
    for (let next = 1; next <= RELOADS; next++) {
      if (next % 3 === 0) await gateway.reloadQuietly(`${file(next)}nonsense: true\n`, 'refused')
      await gateway.reloadQuietly(file(next), 'ok')
      generation = next
      await served()
    }
    stopped = true
    await Promise.all(running)

    const asked = clients.flatMap((client) => client.asked)
    assert.deepEqual(clients.flatMap((client) => client.errors), [])
    assert.deepEqual(asked.filter(({ status }) => status !== 201), [])
    assert.deepEqual(asked.filter(({ keyed, mark }) => mark !== (keyed ? 'executed' : undefined)), [])
    assert.deepEqual(clients.map(({ sockets }) => sockets.size), clients.map(() => 1), 'connections')
    const seen = witnesses.flatMap((witness, parity) => witness.seen.map((one) => ({ ...sightingOf(one), parity })))
    assert.deepEqual(seen.map(({ name }) => name).sort(), asked.map(({ name }) => name).sort(), 'once each')
    const byName = new Map(seen.map((one) => [one.name, one]))
    // A reload counts for the test a moment after it counts for the gateway: a request of that moment may be by the next.
    const wrong = asked.filter(({ name, from, until }) => {
      const { by = -1, parity } = byName.get(name) ?? {}
      return by < from || by > until + 1 || by % 2 !== parity
    })
    assert.deepEqual(wrong, [])
    assert.deepEqual(
      Array.from(new Set(seen.map(({ by }) => by))).sort((a, b) => a - b),
      Array.from({ length: RELOADS + 1 }, (_, by) => by)
    )
    t.diagnostic(`${asked.length} requests, ${RELOADS} reloads`)
  })
})

function sightingOf ({ body, headers }: Seen): { readonly name: string, readonly by: number } {
  return { name: body.toString(), by: Number(headers['x-generation']) }
}
