/**
 * Clients that ask, and ask again until they have a final answer, while something is done to the gateway; and the verdict
 * over it: clients, upstream and the store's own trail become one history, of which I1–I11 are asked (test/chaos).
 */
import { createHash, randomUUID } from 'node:crypto'
import { Door } from '../chaos/asking.ts'
import { readAudit, readRows } from '../chaos/audit.ts'
import { judge } from '../chaos/judge.ts'
import type { Judgement } from '../chaos/judge.ts'
import { Ledger, wishOf } from '../chaos/ledger.ts'
import type { Wish } from '../chaos/ledger.ts'
import { LOOKUP_PATH, ROUTES } from '../chaos/routes.ts'
import type { ChaosRoute } from '../chaos/routes.ts'
import type { WitnessLine } from '../chaos/witness.ts'
import { startWitness } from '../harness/witness.ts'
import type { Witness } from '../harness/witness.ts'

/** A drop route keeps no answer that would be the last word. */
const ASKED: readonly ChaosRoute[] = ROUTES.filter(({ drop }) => drop === undefined)

/** What a client does not ask again after. */
const FINAL: ReadonlySet<string> = new Set(['stored', 'replayed', 'given', 'tombstone', 'unknown'])
/** Between two requests of a client: far from what two cores can do. */
const PAUSE_MS = 20
/** How long the upstream takes: whoever is killed has something under way. */
const UPSTREAM_MS = 30

/** An upstream that writes down what reached it, and when it answered. */
export async function startJudgedWitness (): Promise<Witness & { readonly lines: readonly WitnessLine[] }> {
  const lines: WitnessLine[] = []
  /** What it has done, by record: it may be asked. */
  const books = new Map<string, number>()
  const witness = await startWitness((seen, response, _socket, execution) => {
    const field = (name: string): string => String(seen.headers[name])
    if (seen.method === 'GET' && seen.target.startsWith(LOOKUP_PATH)) {
      const done = books.get(seen.target.slice(LOOKUP_PATH.length))
      response.writeHead(done === undefined ? 404 : 200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ execution: done }))
      return
    }
    books.set(field('onceway-key'), execution)
    const body = createHash('sha256').update(seen.body).digest('base64url')
    lines.push({
      execution,
      record: field('onceway-key'),
      attempt: Number(field('idempotency-attempt')),
      call: field('x-request-id'),
      atMs: Date.now(),
      scope: field('authorization'),
      target: seen.target,
      body
    })
    setTimeout(() => {
      lines.push({ execution, repliedMs: Date.now(), status: 201 })
      response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify({ execution }))
    }, UPSTREAM_MS)
  })
  return Object.assign(witness, { lines })
}

export class JudgedLoad {
  readonly ledger = new Ledger()
  readonly #door: Door
  readonly #clients: ReadonlyArray<Promise<void>>
  #stopped = false
  #abandoned = false

  constructor (url: string, clients: number) {
    this.#door = new Door(Number(new URL(url).port))
    this.#clients = Array.from({ length: clients }, async (_, client) => this.#client(client))
  }

  /** Every wish that was begun has its final answer. */
  async stop (): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#clients)
    await this.#door.close()
  }

  /** The test is over, however it ended: nobody asks on. */
  async abandon (): Promise<void> {
    this.#abandoned = true
    await this.stop()
  }

  /** When nothing is claimed any more. */
  async verdict (database: string, witnessed: readonly WitnessLine[]): Promise<Judgement> {
    const rows = await readRows(database)
    return judge({
      events: this.ledger.events,
      witnessed,
      stamps: [],
      audit: await readAudit(database),
      rows,
      claimed: rows.filter(({ state }) => state === 'claimed'),
      abandoned: [],
      incarnations: new Map(),
      gatewayOf: () => 'gateway',
      endedAtMs: Date.now()
    })
  }

  async #client (client: number): Promise<void> {
    for (let turn = client; !this.#stopped; turn++) {
      const key = randomUUID()
      const route = ASKED[turn % ASKED.length] as ChaosRoute
      const wish = wishOf({ route, target: `/${route.name}/things`, key, caller: { authorization: `Bearer ${client}` }, body: key })
      // Every third time twice at once: at two workers, or at one.
      await Promise.all(turn % 3 === 0 ? [this.#untilFinal(wish), this.#untilFinal(wish)] : [this.#untilFinal(wish)])
    }
  }

  async #untilFinal (wish: Wish): Promise<void> {
    while (!this.#abandoned) {
      const ask = this.ledger.ask(wish, 0)
      const sentAtMs = performance.now()
      const told = this.ledger.answered(ask, await this.#door.ask(ask), performance.now() - sentAtMs)
      if (FINAL.has(told)) return
      await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS) })
    }
  }
}
