/** Two gateways on one Postgres and one Redis, with routes of each mode, a load, and a Prometheus that reads them. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import { makeAuthority, textOf } from '../harness/certificates.ts'
import type { Authority } from '../harness/certificates.ts'
import { makeDirectory } from '../harness/directory.ts'
import { eventually } from '../harness/eventually.ts'
import { startPrometheus } from '../harness/prometheus.ts'
import type { Prometheus } from '../harness/prometheus.ts'
import { steppingDatabase } from '../harness/stepping-postgres.ts'
import type { SteppingDatabase } from '../harness/stepping-postgres.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'
import { startReloadable } from '../e2e/reload-world.ts'
import type { Reloadable } from '../e2e/reload-world.ts'
import { startServers } from '../e2e/world.ts'
import type { Servers } from '../e2e/world.ts'
import { rulesText, shortened } from './rules.ts'

export const JOB = 'onceway'
/** Of a process. More of them at once are shed. */
export const EXECUTIONS = 16
/** Beyond what an alert calls soon. */
const DAYS = '90'
const READY_WITHIN_MS = 60_000

export interface Sent { readonly key?: string, readonly body?: string, readonly token?: string, readonly method?: string }

export interface World {
  readonly servers: Servers
  readonly database: SteppingDatabase
  readonly witness: Witness
  readonly authority: Authority
  /** Speaks plain HTTP. */
  readonly one: Reloadable
  /** Speaks TLS. */
  readonly two: Reloadable
  readonly prometheus: Prometheus
  /** The configuration of {@link two}, with some text of it replaced. */
  readonly ofTwo: (text?: string, by?: string) => string
  /** Replaces the certificate of {@link two}: by one that is valid for so many days, or by this text. */
  readonly certificate: (content: { readonly days: string } | string) => void
  readonly ask: (gateway: Pick<Reloadable, 'url'>, path: string, sent?: Sent) => Promise<Called>
  /** The upstream answers what it holds: all bodies that begin with `slow`. */
  readonly open: () => void
  /** It answers the messages of the route `late` from now on. */
  readonly takeLate: () => void
}

/** A test, or a file of tests, that ends what it started. */
export interface Ending { after: (end: () => Promise<void> | void) => void }

export async function startWorld (t: Ending): Promise<World> {
  const servers = await startServers()
  t.after(() => servers.stop())
  const { witness, open, takeLate } = await startUpstream(t)
  const database = await steppingDatabase(servers.postgres, 'observed')
  const authority = makeAuthority()
  t.after(() => { authority.remove() })
  const files = makeDirectory('observed')
  t.after(() => { files.remove() })
  const tls = `, tls: { certFile: ${join(files.path, 'tls.crt')}, keyFile: ${join(files.path, 'tls.key')} }`
  const certificate: World['certificate'] = (content) => {
    const text = typeof content === 'string'
    const { cert, key } = authority.sign('gateway', ['127.0.0.1'], { days: text ? DAYS : content.days })
    copyFileSync(key, join(files.path, 'tls.key'))
    copyFileSync(text ? content : cert, join(files.path, 'tls.crt'))
  }
  certificate({ days: DAYS })
  const config = (listen: string): string => fileOf({ postgres: database.url, redis: servers.redis.url, upstream: witness.url, listen })
  const [one, two] = await Promise.all(['', tls].map(async (listen) => startReloadable(t, config(listen)))) as [Reloadable, Reloadable]
  for (const { adminUrl } of [one, two]) {
    await eventually(async () => (await call(adminUrl, '/readyz', { method: 'GET' })).status === 200, 'it is ready', READY_WITHIN_MS)
  }
  const prometheus = await startPrometheus({ job: JOB, rules: shortened(rulesText()), targets: [one, two].map(targetOf) })
  t.after(() => prometheus.stop())
  const ca = textOf(authority.ca)
  const ask: World['ask'] = async ({ url }, path, { key, body = 'one', token = 'alice', method = 'POST' } = {}) => call(url, path, {
    method,
    headers: { Authorization: `Bearer ${token}`, ...key !== undefined && { 'Idempotency-Key': key } },
    ...method === 'POST' && { body },
    tls: { ca }
  })
  const ofTwo: World['ofTwo'] = (text = '', by = '') => config(tls).replace(text, by)
  return { servers, database, witness, authority, one, two, prometheus, ofTwo, certificate, ask, open, takeLate }
}

/** As Prometheus names it in the label `instance`. */
export function targetOf ({ adminUrl }: Pick<Reloadable, 'adminUrl'>): string { return new URL(adminUrl).host }

/** What a body asks of the upstream: `slow` is answered later, `gone` never, and `fail` with 500. */
async function startUpstream (t: Ending): Promise<Pick<World, 'witness' | 'open' | 'takeLate'>> {
  let gate = Promise.withResolvers<void>()
  let takes = false
  const answer: Behaviour = async (...args) => {
    const [{ body, target }, response, socket] = args
    const asked = body.toString()
    if (asked.startsWith('slow')) await gate.promise
    if (asked.startsWith('gone')) socket.destroy()
    else if (asked.startsWith('fail') || (['/late', '/away'].includes(target) && !takes)) response.writeHead(500).end()
    else await CREATED(...args)
  }
  const witness = await startWitness(answer)
  t.after(() => witness.close())
  const open = (): void => {
    gate.resolve()
    gate = Promise.withResolvers()
  }
  return { witness, open, takeLate: () => { takes = true } }
}

interface FileOptions { readonly postgres: string, readonly redis: string, readonly upstream: string, readonly listen: string }

/**
 * A route in each mode. A stall of a busy machine sheds nothing. `late`: an inbox whose consumer takes nothing for long. `away`: one that
 * is paused for it. `brief`: unknown outcomes are forgotten soon.
 */
function fileOf ({ postgres, redis, upstream, listen }: FileOptions): string {
  const relayed = 'profile: relay, scope: public, lease: 5s, key: { from: ["header:Idempotency-Key"] }'
  const soon = 'backoff: { first: 100ms, longest: 200ms }'
  return `
version: 1
listen: { host: 127.0.0.1, port: 0${listen} }
admin: { host: 127.0.0.1, port: 0 }
stores: { postgres: { url: "${postgres}" }, redis: { url: "${redis}" } }
drain: { delay: 0s, timeout: 5s }
limits: { executions: ${EXECUTIONS}, share: 1, eventLoopDelay: 5s }
upstreams:
  shop: { url: "${upstream}", timeout: 60s }
  hasty: { url: "${upstream}", timeout: 1s }
routes:
  - name: charges
    match: { path: /charges, methods: [POST] }
    upstream: shop
    idempotency: { lease: 5s, answerWithin: 15s }
  - name: brief
    match: { path: /brief, methods: [POST] }
    upstream: hasty
    idempotency: { lease: 2s, unknownRetention: 4s }
  - name: hooks
    match: { path: /hooks, methods: [POST] }
    upstream: shop
    idempotency: { ${relayed}, retention: 24h }
  - name: events
    match: { path: /events, methods: [POST] }
    upstream: shop
    idempotency: { mode: drop, ${relayed} }
  - name: orders
    match: { path: /orders, methods: [POST] }
    upstream: shop
    idempotency:
      { mode: inbox, ${relayed}, unknown: hold, inbox: { maxAttempts: 2, keepDelivered: 1h, ${soon} } }
  - name: late
    match: { path: /late, methods: [POST] }
    upstream: shop
    idempotency: { mode: inbox, ${relayed}, inbox: { maxAttempts: 1000, ${soon} } }
  - name: away
    match: { path: /away, methods: [POST] }
    upstream: shop
    idempotency: { mode: inbox, ${relayed}, inbox: { maxAttempts: 1000, pauseAfter: 1s, ${soon} } }
  - match: { path: "/*" }
    upstream: shop
`
}
