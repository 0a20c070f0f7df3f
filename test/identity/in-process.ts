/**
 * Two gateways on one store in memory, asked without sockets: real from the request's head to the answer's. What of a request
 * is looked at before `handle` is called is looked at here as src/http/head.ts does.
 */
import { readClocks } from '../../src/gateway/shared/clock-reading.ts'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { load } from '../../src/config/load.ts'
import type { Config } from '../../src/config/config.ts'
import { decidingRefusal, rulesOf } from '../../src/core/forward/deciding.ts'
import { requestRefusal } from '../../src/core/headers/headers.ts'
import { headerValue } from '../../src/core/headers/lines.ts'
import { overridingMethods } from '../../src/core/headers/method-override.ts'
import type { RawHeaders } from '../../src/core/record/record.ts'
import { schemeName } from '../../src/core/record/schemes.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { keyOf } from '../crash/outside.ts'
import { MODES } from '../../src/process/modes.ts'
import { Steps } from '../../src/gateway/shared/steps.ts'
import { handle } from '../harness/handled.ts'
import { inboxRoutes } from '../../src/gateway/shared/deps.ts'
import { replyTo } from '../../src/http/respond/answer.ts'
import type { ClaimsResult, TokenVerifier } from '../../src/ports/tokens.ts'
import { PromisedUpstream } from '../harness/promised-upstream.ts'
import type { PromisedSending, UpstreamRequest } from '../harness/promised-upstream.ts'
import { compileRoutes } from '../../src/routing/match.ts'
import { SYSTEM_CLOCK, SYSTEM_RANDOM } from '../../src/process/clock.ts'
import { NO_SUBSCRIPTIONS } from '../../src/store/shared/inbox-subscriptions.ts'
import { MemoryCounts } from '../../src/store/memory/counts.ts'
import { MemoryInbox } from '../../src/store/memory/inbox.ts'
import { MemoryLocks } from '../../src/store/memory/locks.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { NO_LOCKS } from '../../src/store/shared/no-locks.ts'
import { NO_REGISTRY } from '../../src/store/shared/no-registry.ts'
import { RouteMarks } from '../../src/store/route-marks.ts'
import { makeDirectory } from '../harness/directory.ts'
import { countingMeter, SILENT } from '../harness/gateway.ts'
import { SIGN } from '../harness/sign.ts'
import type { Sent } from './asks.ts'
import type { Heard } from './judge.ts'
import type { SchemePlan, World } from './world.ts'

/** Where pairs are played. */
export interface Stage {
  readonly seats: number
  ask: (seat: number, sent: Sent) => Promise<Heard>
  /** Of the request with this id. */
  executed: (id: string) => readonly number[]
  /** Messages in the inbox. */
  messages: () => Promise<number>
  /** The request with this id is held until it is let go; resolves when it is there. null: nothing can be held. */
  hold: ((id: string) => { readonly there: Promise<void>, readonly letGo: () => void }) | null
  /** The store goes over to the world's next scheme; `heard`: and the gateways are told. */
  switchScheme: (heard: boolean) => Promise<void>
  close: () => Promise<void>
}

// ---------------------------------------------------------------- what stands at the ports

/** Counts, and says with each answer which execution it is. */
class Counting extends PromisedUpstream {
  readonly executed = new Map<string, number[]>()
  readonly #held = new Map<string, { readonly there: () => void, readonly until: Promise<void> }>()
  #serial = 0

  send ({ headers }: UpstreamRequest, maySend: () => boolean): PromisedSending {
    if (!maySend()) return { result: Promise.resolve({ kind: 'unsent', code: 'LEASE' }), cancel: () => {} }
    const id = headerValue(headers, 'x-request-id') ?? ''
    const serial = ++this.#serial
    this.executed.set(id, [...this.executed.get(id) ?? [], serial])
    const held = this.#held.get(id)
    held?.there()
    const result = (held?.until ?? Promise.resolve()).then(() => ({
      kind: 'answer',
      answer: { status: 201, headers: ['Content-Type', 'application/json'], body: Buffer.from(JSON.stringify({ serial })) }
    }) as const)
    return { result, cancel: () => {} }
  }

  hold (id: string): { readonly there: Promise<void>, readonly letGo: () => void } {
    const [there, until] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    this.#held.set(id, { there: there.resolve, until: until.promise })
    return { there: there.promise, letGo: () => { this.#held.delete(id); until.resolve() } }
  }
}

/** The claims that values.ts has written, and nothing that it has not. */
export const VERIFIER: TokenVerifier = {
  verify: async (_policy, token): Promise<ClaimsResult> => {
    const [claims = '', word] = token.split('.')
    return word === 'good'
      ? { kind: 'claims', claims: JSON.parse(Buffer.from(claims, 'base64url').toString()) as Record<string, unknown> }
      : { kind: 'invalid', fault: 'expired' }
  }
}

export function configOf (world: World, upstream: string): Config {
  const directory = makeDirectory('pairs')
  try {
    const file = join(directory.path, 'onceway.yaml')
    writeFileSync(file, JSON.stringify(world.config(upstream)))
    return load(file, { env: {} }).config
  } finally {
    directory.remove()
  }
}

export function nameOf ({ rules, secret }: SchemePlan): string {
  return schemeName(rules, secret === null ? null : Buffer.from(secret))
}

// ---------------------------------------------------------------- the stage

/** Who asks whom is asked here, and not how soon: no machine is so busy that a store is given up. */
export const CLAIM_WITHIN_MS = 30_000
const LIMITS = {
  share: 1,
  executions: 1_000,
  waiters: 1_000,
  inFlightPerScope: 0,
  bufferedBytes: 64 * 1024 * 1024,
  unsettledBytes: 1024 * 1024,
  recentBytes: 1024 * 1024
}
/** Those of a proxy, each for whoever comes by it. */
const CONNECTIONS = 3

export async function openInProcess (world: World): Promise<Stage> {
  const config = configOf(world, 'http://upstream.example')
  const records = new MemoryStore({ nowMs: Date.now, scheme: nameOf(world.scheme) })
  const inbox = new MemoryInbox({ nowMs: Date.now, records })
  const upstream = new Counting()
  const shared = {
    records,
    inbox,
    upstream,
    locks: world.locks ? new MemoryLocks({ nowMs: Date.now }) : NO_LOCKS,
    marks: new RouteMarks(() => performance.now(), false)
  }
  const gateways = await Promise.all(['one', 'two'].map(async (name) => gatewayOf(name, config, shared)))
  const routes = compileRoutes(config.routes)
  const connections = Array.from({ length: CONNECTIONS }, () => ({}))
  let asked = 0
  return {
    seats: gateways.length,
    executed: (id) => upstream.executed.get(id) ?? [],
    messages: async () => (await inbox.list({ limit: 1_000_000 })).length,
    hold: (id) => upstream.hold(id),
    ask: async (seat, sent) => askOf(gateways[seat] as Gateway, routes, sent, {
      trusted: world.trusted,
      connection: sent.certificate === null ? connections[asked++ % connections.length] as object : {}
    }),
    switchScheme: async (heard) => {
      if (world.next === null) return
      const { kind } = records.switchScheme(nameOf(world.next))
      if (kind !== 'switched') throw new Error(`the switch is ${kind}`)
      if (heard) await Promise.all(gateways.map(async (gateway) => gateway.ids.refresh()))
    },
    close: async () => { for (const gateway of gateways) gateway.stop() }
  }
}

type Shared = Pick<Gateway['deps'], 'records' | 'inbox' | 'upstream' | 'locks' | 'marks'>

async function gatewayOf (instance: string, { routes, secrets }: Config, shared: Shared): Promise<Gateway> {
  const gateway = new Gateway({
    ...shared,
    wakes: NO_SUBSCRIPTIONS,
    registry: NO_REGISTRY,
    counts: new MemoryCounts(Date.now),
    tokens: VERIFIER,
    clock: SYSTEM_CLOCK,
    random: SYSTEM_RANDOM,
    meter: countingMeter(),
    log: SILENT,
    deliveryLog: { note: () => {} },
    instance,
    limits: LIMITS,
    claimWithinMs: CLAIM_WITHIN_MS,
    longestLeaseMs: 15_000,
    probed: new Map(),
    inboxes: inboxRoutes(routes),
    copyTtlMs: 600_000,
    secrets,
    marksKeptMs: 3_600_000
  }, MODES)
  await gateway.ids.refresh()
  // Without a heartbeat nobody would tell it of which generation copies are.
  const askedAt = readClocks(gateway.deps.clock)
  gateway.generation.learn((await shared.records.beat(SIGN)).generation, askedAt)
  gateway.registration.reconfigure(routes)
  return gateway
}

interface Peer { readonly trusted: boolean, readonly connection: object }

const REFUSED: Heard = { status: 400, code: 'bad-request', mark: null, replayed: false, serial: null, location: null }

async function askOf (
  gateway: Gateway,
  routes: ReturnType<typeof compileRoutes>,
  { id, method, target, host, raw, body, certificate }: Sent,
  { trusted, connection }: Peer
): Promise<Heard> {
  if (requestRefusal(raw, 'idempotency-key') !== null) return REFUSED
  const matched = routes.match(method, target, host, overridingMethods(raw, target))
  if (matched.kind === 'refused') return REFUSED
  const policy = matched.kind === 'route' ? matched.route.idempotency : null
  if (matched.kind !== 'route' || policy === null) throw new Error(`${id}: ${method} ${target} meets no guarded route of ${host}`)
  if (decidingRefusal(raw, rulesOf(policy), trusted) !== null) return REFUSED
  const route = { ...matched.route, idempotency: policy }
  const outcome = await handle(gateway, {
    route,
    key: keyOf({ route, target, rawHeaders: raw }),
    method,
    target,
    rawHeaders: raw,
    clientCertificate: certificate,
    connection,
    forwarded: { for: '127.0.0.1', proto: 'http', host, trusted },
    peer: null,
    informed: () => {},
    requestId: id,
    steps: new Steps(),
    readBody: async (_bytesMax, budget) => budget.reserve(body.length) ? { kind: 'body', body } : { kind: 'no-room' },
    gone: async () => new Promise(() => {})
  })
  const reply = replyTo(outcome, {
    route,
    requestId: id,
    corsRequest: { origin: null, preflighted: false, cors: null },
    problemBaseUri: 'urn:onceway:problem:'
  })
  const whole = typeof reply.body === 'string' ? Buffer.from(reply.body, 'latin1') : reply.body
  if (!Buffer.isBuffer(whole)) throw new Error('nothing is streamed here')
  return heardOf(reply.status, reply.headers, whole)
}

export function heardOf (status: number, headers: RawHeaders, body: Buffer): Heard {
  const said = body.length === 0 ? {} : JSON.parse(body.toString()) as { readonly serial?: number, readonly code?: string }
  return {
    status,
    code: said.code ?? null,
    mark: headerValue(headers, 'idempotency-status'),
    replayed: headerValue(headers, 'idempotent-replayed') === 'true',
    serial: said.serial ?? null,
    location: headerValue(headers, 'location')
  }
}
