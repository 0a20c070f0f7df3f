/**
 * Whether the gateway and whoever stands behind it, or in front, ever differ on what a request is and where it ends. Each
 * drawn request goes over a connection of its own: to the gateway, or through a proxy whose connections to it are used again.
 */
import { createHash } from 'node:crypto'
import { connect } from 'node:net'
import { eventually } from '../harness/eventually.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { startFront } from './fronts.ts'
import type { FrontName } from './fronts.ts'
import { drawRequest, GUARDED } from './requests.ts'
import type { Drawn } from './requests.ts'
import { DOOR, startOrigin, startTap } from './taps.ts'
import type { Arrived, Garbage, Passed } from './taps.ts'
import { readAnswers, readRequests, valuesOf } from './wire.ts'
import type { WireMessage } from './wire.ts'

export type Door = 'direct' | FrontName
export interface FramingOptions { readonly door: Door, readonly seed: number, readonly requests: number }

export interface FramingResult {
  readonly door: Door
  /** Of the proxy. */
  readonly version: string | null
  readonly requests: number
  /** Requests that reached the origin. */
  readonly arrived: number
  /** How often each change was made. */
  readonly changes: ReadonlyMap<string, number>
  /** Final answers, by status. */
  readonly statuses: ReadonlyMap<string, number>
  readonly violations: readonly string[]
}

interface Cleanups { after: (end: () => unknown) => void }

/** Requests between two looks at the origin; so many connections at once. */
const BATCH = 256
const AT_ONCE = 64
/** Whoever is owed nothing that would come has waited so long; whoever is owed an answer, so long. */
const QUIET_MS = 150
const LONG_MS = 3_000
/** What is on its way through sockets when nothing is under way in the gateway any more. */
const SETTLED_MS = 30
const OVER_WITHIN_MS = 20_000
/** One address has not enough ports for a hundred thousand connections in a minute. */
const ADDRESSES = 100
const VIOLATIONS_MAX = 20

export async function playFraming (t: Cleanups, { door, seed, requests }: FramingOptions): Promise<FramingResult> {
  const origin = await startOrigin()
  t.after(origin.close)
  const route = guardedRoute(`http://127.0.0.1:${origin.port}`)
  const routes = [
    { ...route, match: { ...route.match, path: `${GUARDED}/*`, methods: [] } },
    { ...route, name: 'open', match: { ...route.match, path: '/*', methods: [] }, idempotency: null }
  ]
  const gateway = await startGateway(t, { routes, server: { requestBodyMs: 2_000, clientIdleMs: 2_000 } })
  const tap = door === 'direct' ? null : await startTap(Number(new URL(gateway.url).port))
  if (tap !== null) t.after(tap.close)
  const front = door === 'direct' || tap === null ? null : await startFront(door, tap.port)
  if (front !== null) t.after(front.stop)
  const port = front?.port ?? Number(new URL(gateway.url).port)

  const changes = new Map<string, number>()
  const statuses = new Map<string, number>()
  const violations: string[] = []
  let arrived = 0
  for (let from = 0; from < requests && violations.length < VIOLATIONS_MAX; from += BATCH) {
    const drawn = Array.from({ length: Math.min(BATCH, requests - from) }, (_, at) => drawRequest(seed, from + at))
    for (const { changes: names } of drawn) for (const name of names.length === 0 ? ['none'] : names) count(changes, name)
    const exchanges = await sendAll(drawn, port)
    await idle(gateway)
    const seen = origin.take()
    arrived += seen.length
    // A proxy's connections go on over many batches: those of a batch are read when it is over.
    const passed = tap === null ? exchanges : tap.take()
    for (const each of passed) for (const status of statusesOf(each)) count(statuses, status)
    violations.push(
      ...judge(passed, seen, door !== 'direct').map((what) => `seed ${seed}, requests ${from} to ${from + drawn.length - 1}: ${what}`)
    )
  }
  return { door, version: front?.version ?? null, requests, arrived, changes, statuses, violations: violations.slice(0, VIOLATIONS_MAX) }
}

function count (of: Map<string, number>, what: string): void {
  of.set(what, (of.get(what) ?? 0) + 1)
}

async function idle ({ gateway, held }: TestGateway): Promise<void> {
  await eventually(() => gateway.executionsInFlight === 0 && held().passing === 0, 'all of them are over', OVER_WITHIN_MS)
  await new Promise((resolve) => setTimeout(resolve, SETTLED_MS))
}

async function sendAll (drawn: readonly Drawn[], port: number): Promise<Passed[]> {
  const exchanges: Passed[] = []
  let next = 0
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let one = drawn[next++]; one !== undefined; one = drawn[next++]) exchanges.push(await send(one, port))
  }))
  return exchanges
}

/** Until its answers are there, the connection has ended, or nothing comes any more. */
async function send ({ bytes, number }: Drawn, port: number): Promise<Passed> {
  const { messages, end } = readRequests(bytes)
  const methods = messages.map(({ start: [method] }) => method)
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: `127.0.0.${1 + number % ADDRESSES}` })
    const chunks: Buffer[] = []
    const done = (): void => {
      clearTimeout(quiet)
      socket.resetAndDestroy()
      resolve({ sent: bytes, answered: Buffer.concat(chunks) })
    }
    let quiet = setTimeout(done, end === 'whole' ? LONG_MS : QUIET_MS)
    socket.on('connect', () => { socket.write(bytes) })
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      clearTimeout(quiet)
      const owed = end === 'whole' && readAnswers(Buffer.concat(chunks), methods).messages.filter(isFinal).length < methods.length
      if (end === 'whole' && !owed) done()
      else quiet = setTimeout(done, owed ? LONG_MS : QUIET_MS)
    })
    socket.on('error', () => {})
    socket.on('close', done)
  })
}

function isFinal ({ start: [, status] }: WireMessage): boolean {
  return !status.startsWith('1')
}

// ---------------------------------------------------------------- what must hold

/** `exchanges`: what whoever stands in front of the gateway sent it and was answered, connection by connection. */
export function judge (exchanges: readonly Passed[], seen: ReadonlyArray<Arrived | Garbage>, doors: boolean): string[] {
  const wrong: string[] = []
  const owned = new Map<string, number>()
  for (const { sent, answered } of exchanges) {
    const requests = readRequests(sent)
    const answers = answersOf(sent, answered)
    if (answers.end === 'bad') wrong.push(`its answers cannot be read:\n${shown(answered)}\nto\n${shown(sent)}`)
    const finals = answers.messages.filter(isFinal)
    const last = finals.findIndex(closes)
    if (last !== -1 && last < finals.length - 1) wrong.push(`there is an answer behind the last one:\n${shown(answered)}`)
    if (doors) wrong.push(...misdirected(requests.messages, finals))
    // Behind an answer that ends the connection nothing is executed.
    const counted = last === -1 ? requests.messages : requests.messages.slice(0, last + 1)
    for (const message of counted) owned.set(nameOf(message), (owned.get(nameOf(message)) ?? 0) + 1)
  }
  for (const one of seen) {
    if (one.bad) {
      wrong.push(`the origin was sent what is no request:\n${shown(one.bytes)}`)
      continue
    }
    const name = nameOf(one)
    const left = owned.get(name) ?? 0
    if (left === 0) wrong.push(`the origin was sent a request that nobody made, or made once:\n${one.start.join(' ')}\n${one.headers.join('\n')}\n${one.body.toString('latin1')}`)
    owned.set(name, left - 1)
    if (!/^(?:\/|\*$)/.test(one.start[1])) wrong.push(`the origin was sent ${one.start[1]}`)
    if (isUnguarded(one)) {
      wrong.push(`the origin was sent a key that the gateway did not see:\n${one.start.join(' ')}\n${one.headers.join('\n')}`)
    }
  }
  return wrong
}

function answersOf (sent: Buffer, answered: Buffer): ReturnType<typeof readAnswers> {
  const { messages, end } = readRequests(sent)
  // What is no request, or does not come, may be answered as well.
  return readAnswers(answered, [...messages.map(({ start: [method] }) => method), ...end === 'whole' ? [] : ['GET']])
}

function statusesOf ({ sent, answered }: Passed): string[] {
  return answersOf(sent, answered).messages.map(({ start: [, status] }) => status)
}

function closes ({ headers }: WireMessage): boolean {
  return valuesOf(headers, 'connection').some((value) => /(?:^|,)\s*close\s*(?:,|$)/i.test(value))
}

/** The origin's answers say whose they are; a replay says whose it was. */
function misdirected (requests: readonly WireMessage[], finals: readonly WireMessage[]): string[] {
  return finals.flatMap(({ headers }, at) => {
    const [door] = valuesOf(headers, 'x-door-answer')
    const asked = requests[at]
    if (door === undefined || asked === undefined || valuesOf(headers, 'idempotent-replayed').length > 0) return []
    return valuesOf(asked.headers, DOOR).join() === door
      ? []
      : [`request ${valuesOf(asked.headers, DOOR).join()} was given the answer to ${door}`]
  })
}

/** The same request on both sides: method, path and query, body. */
function nameOf ({ start: [method, target], headers, body }: WireMessage): string {
  return `${method} ${target.replace(/^https?:\/\/[^/?#]*/i, '')} ${valuesOf(headers, DOOR).join()} ${createHash('sha256').update(body).digest('base64url')}`
}

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])

/** A key that the origin may take for one, in any spelling, on a request that was not guarded by it. */
function isUnguarded ({ start: [method, target], headers }: WireMessage): boolean {
  if (SAFE.has(method) || !target.startsWith(`${GUARDED}/`)) return false
  const keyed = headers.some((name, at) => at % 2 === 0 && name.toLowerCase().replaceAll('_', '-') === 'idempotency-key')
  return keyed && valuesOf(headers, 'onceway-key').length !== 1
}

const SHOWN_BYTES = 1_000

function shown (bytes: Buffer): string {
  return JSON.stringify(bytes.subarray(0, SHOWN_BYTES).toString('latin1'))
}
