/** A request before it is written down: what its caller shows, what it asks for, and how it is spelled. */
import { createHmac } from 'node:crypto'
import { CLIENT_CERTIFICATE, CREDENTIAL, PROXY_USER } from '../../src/core/headers/carrier-kinds.ts'
import { CARRIERS } from '../../src/core/headers/carriers.ts'
import type { Carrier } from '../../src/core/headers/carriers.ts'
import { COMPARED_FIELDS } from '../../src/core/fingerprint/compared-fields.ts'
import type { Random } from '../chaos/random.ts'
import { bare, basic, cased, changing, cookie, drawClaim, drawPlain, drawSigned, drawToken, hex, jwt, NOBODY, plain } from './values.ts'
import type { Value } from './values.ts'
import { HOSTS, SIGNED_WITH } from './world.ts'
import type { Place, World } from './world.ts'

export interface Line {
  readonly name: string
  readonly value: Value
  /** What the table says of it; null: it is there for a part of the scope alone. */
  readonly carrier: Carrier | null
  /** A part of the route's scope reads it. */
  readonly part?: true
}

export interface Content {
  readonly kind: 'json' | 'form' | 'text' | 'bytes' | 'multipart' | 'none'
  readonly type: string
  /** Behind the type, as it is written. */
  readonly parameters: string
  readonly fields: ReadonlyArray<readonly [name: string, value: string]>
  readonly boundary: string
  /** JSON with spaces in it. */
  readonly wide: boolean
  readonly encoding: string | null
}

type Fields = ReadonlyArray<readonly [name: string, value: string]>

export interface Ask {
  readonly place: Place
  readonly key: string
  readonly host: string
  /** Another spelling of it. */
  readonly hostText: string
  readonly method: string
  readonly segment: string
  readonly query: readonly string[]
  readonly lines: readonly Line[]
  /** Of the connection. */
  readonly certificate: string | null
  readonly content: Content
  /** Methods that override, and fields that change what is meant. */
  readonly meaning: Fields
  /** What a proxy says of the host. */
  readonly proxied: Fields
  /** What no gateway has a reason to look at. */
  readonly around: Fields
  /** Names that may be a caller's, and that nobody knows. */
  readonly unknown: Fields
  /** What is wrong with it. */
  readonly wrong: Fields
  /** The target says the host, too. */
  readonly absolute: boolean
  /** Another one than Host. */
  readonly elsewhere: string | null
  /** `Prefer: respond-async`. */
  readonly deferred: boolean
  readonly prefers: string | null
  readonly forged: boolean
  /** Lines in any order, names in any case, spaces around values. */
  readonly spelled: boolean
}

/** As it is sent. */
export interface Sent {
  readonly id: string
  readonly method: string
  readonly target: string
  readonly host: string
  /** Name, value, name, value. */
  readonly raw: readonly string[]
  readonly body: Buffer
  readonly certificate: string | null
}

// ---------------------------------------------------------------- who asks

const AUTHORIZATION = CARRIERS.find(({ name }) => name === 'authorization') as Carrier
const COOKIE = CARRIERS.find(({ name }) => name === 'cookie') as Carrier

/** All carriers, one after the other, in an order that is drawn: none is left out for long. */
export class Deck {
  readonly #random: Random
  readonly #queue: Carrier[] = []

  constructor (random: Random) { this.#random = random }

  take (may: (carrier: Carrier) => boolean): Carrier {
    const at = this.#queue.findIndex(may)
    const [carrier] = at === -1 ? [] : this.#queue.splice(at, 1)
    if (carrier !== undefined) return carrier
    if (!CARRIERS.some(may)) throw new Error('no carrier may be taken')
    this.#queue.push(...this.#random.shuffled(CARRIERS))
    return this.take(may)
  }
}

export interface Drawing { readonly random: Random, readonly world: World, readonly deck: Deck }

/** Names that mean something else on this route, or are read by a part of its scope. */
export function isTaken ({ sender, telling, signing }: Place, name: string): boolean {
  return sender.fields.includes(name) ||
    telling.header?.name.toLowerCase().replaceAll('_', '-') === name ||
    (telling.cookie !== undefined && name === 'cookie') ||
      (telling.claim !== undefined && name === 'authorization') || (typeof signing === 'object' && signing?.fields.includes(name) === true)
}

export function drawLine ({ random, world }: Drawing, place: Place, carrier: Carrier): Line {
  return { name: carrier.name, carrier, value: drawValue(random, world, place, carrier) }
}

function drawValue (random: Random, world: World, { signing, telling }: Place, { class: cls, what }: Carrier): Value {
  if (cls === 'rotating') return changing(hex(random, 2, 20))
  if (cls === 'selector') return random.chance(0.03) ? plain('') : drawPlain(random)
  if (what === CREDENTIAL) {
    return signing === 'by-key-id' && telling.carriers !== null && random.chance(0.6)
      ? drawSigned(random, world.firstRules)
      : drawToken(random)
  }
  return (what === PROXY_USER || what === CLIENT_CERTIFICATE) && random.chance(0.06) ? NOBODY : drawPlain(random)
}

/** Alone, in pairs and in triples. */
const CARRIERS_DRAWN = { 0: 6, 1: 35, 2: 29, 3: 22, 4: 3, 6: 5 } as const

function drawLines (drawing: Drawing, place: Place): Line[] {
  const { random, deck } = drawing
  const count = Number(random.weighted<keyof typeof CARRIERS_DRAWN & string>(CARRIERS_DRAWN as Record<string, number>))
  const lines: Line[] = partLines(drawing, place)
  for (let drawn = 0; drawn < count; drawn++) {
    const carrier = deck.take(({ name }) => !isTaken(place, name) && !lines.some((line) => line.name === name))
    lines.push(drawLine(drawing, place, carrier))
  }
  return lines
}

/** What the parts of the scope read. */
function partLines ({ random }: Drawing, { telling: { header, cookie: named, claim, carriers } }: Place): Line[] {
  const lines: Line[] = []
  if (header !== undefined && !(header.optional && random.chance(0.3))) {
    const lower = header.name.toLowerCase()
    lines.push({
      name: lower,
      value: header.optional && random.chance(0.1) ? plain('') : drawPlain(random),
      carrier: CARRIERS.find(({ name }) => name === lower) ?? null,
      part: true
    })
  }
  if (named !== undefined && !(named.optional && random.chance(0.3))) {
    lines.push({
      name: COOKIE.name,
      value: cookie(random, named.optional && random.chance(0.2) ? null : hex(random, 3, 8), named.optional),
      carrier: null,
      part: true
    })
  }
  if (claim !== undefined && !(claim.optional && random.chance(0.3))) {
    // Where the token itself does not count, two of them without a claim are one caller's.
    const value = claim.optional && random.chance(0.2)
      ? { ...basic(random), ...carriers === null && { other: (chance: Random) => jwt(chance, drawClaim(chance), true) } }
      : jwt(random, claim.optional && random.chance(0.1) ? {} : drawClaim(random), carriers === null)
    lines.push({ name: AUTHORIZATION.name, value, carrier: AUTHORIZATION, part: true })
  }
  return lines
}

function isForwarded (name: string): boolean {
  return name.replaceAll('_', '-').startsWith('x-forwarded-')
}

/** Someone is named by what is believed, and by its name. */
export function isNamed ({ trusted }: World, { lines, certificate }: Pick<Ask, 'lines' | 'certificate'>): boolean {
  return (certificate !== null && !trusted) ||
    lines.some((line) =>
      isStable(line) && line.name === line.carrier?.name && bare(line.value.text) !== '' && (trusted || !isForwarded(line.name)))
}

export function isStable ({ carrier }: Line): boolean {
  return carrier?.class === 'stable'
}

function isRotating ({ carrier }: Line): boolean {
  return carrier?.class === 'rotating'
}

/** Carriers count, and whoever signs is not one with all who can. */
export function mustBeNamed ({ telling, signing }: Place): boolean {
  return telling.carriers !== null && (signing === null || signing === 'by-key-id')
}

/** It can be told whose it is, or that it is nobody's, where that is enough. */
export function isServed (world: World, ask: Pick<Ask, 'place' | 'lines' | 'certificate' | 'unknown'>): boolean {
  if (!mustBeNamed(ask.place) || isNamed(world, ask)) return true
  return ask.place.telling.carriers === 'public' &&
    ask.unknown.length === 0 &&
    !ask.lines.some((line) => isRotating(line) || (isStable(line) && bare(line.value.text) !== ''))
}

// ---------------------------------------------------------------- what is asked

/** Fields that change what is meant, and that are no carriers. Some have a case of their own. */
export const SEMANTICS: readonly string[] = COMPARED_FIELDS.filter(({ part }) => part === 'semantics').flatMap(({ names }) => names)
  .filter((name) => name !== 'content-encoding' && name !== 'prefer' && !CARRIERS.some((carrier) => carrier.name === name))
export const COMPARED_NAMES: ReadonlySet<string> = new Set(COMPARED_FIELDS.flatMap(({ names }) => names))
export const OVERRIDES = ['X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override'] as const

/** UTF-8, in so many words or in none. */
export const UTF8 = ['', '; charset=utf-8', ';charset=UTF-8', '; charset="utf-8"', ' ; Charset=utf8'] as const
export const ENCODINGS = ['gzip', 'br', 'deflate', 'zstd', 'gzip, br'] as const

function drawContent (random: Random, { sender, compared }: Place): Content {
  const fields: Fields = [
    ['amount', hex(random, 1, 5)],
    ['to', hex(random, 3, 6)],
    ...random.chance(0.5) ? [['note', `${hex(random, 1, 4)} & so on`] as const] : []
  ]
  const content: Content = {
    kind: 'json',
    type: sender.body?.type ?? 'application/json',
    parameters: random.pick(UTF8),
    fields,
    boundary: hex(random, 8, 16),
    wide: false,
    encoding: random.chance(0.08) ? random.pick(ENCODINGS) : null
  }
  if (sender.body !== undefined) return content
  switch (random.weighted({ json: 40, vendor: 5, form: 15, text: 10, bytes: 8, multipart: 16, none: 6 })) {
    case 'json':
      return compared.members === 'ignore' && random.chance(0.5)
        ? { ...content, fields: [...fields, ['trace', hex(random, 1, 4)]] }
        : content
    case 'vendor': return { ...content, type: 'application/vnd.acme+json', parameters: '; version=1' }
    case 'form': return { ...content, kind: 'form', type: 'application/x-www-form-urlencoded' }
    case 'text': return { ...content, kind: 'text', type: 'text/plain' }
    case 'bytes': return { ...content, kind: 'bytes', type: 'application/octet-stream', parameters: '' }
    case 'multipart': return { ...content, kind: 'multipart', type: 'multipart/form-data', parameters: '' }
    case 'none': return { ...content, kind: 'none', type: '', parameters: '' }
  }
}

export function drawAsk (drawing: Drawing, place: Place, key: string, certificates: boolean): Ask {
  const { random, world, deck } = drawing
  const host = random.pick(place.hosts ?? HOSTS)
  let lines = drawLines(drawing, place)
  // That of a connection from a trusted proxy is the proxy's, and names no caller.
  const shown = certificates && random.chance(0.1) ? certificateOf(random) : null
  const certificate = world.trusted ? null : shown
  if (!isServed(world, { place, lines, certificate, unknown: [] })) {
    const nobody = place.telling.carriers === 'public' && random.chance(0.5)
    const named = (): Line => drawLine(drawing, place, deck.take(({ name, class: cls, what }) =>
      cls === 'stable' &&
      what !== PROXY_USER &&
      what !== CLIENT_CERTIFICATE &&
      !isForwarded(name) &&
      !isTaken(place, name) &&
      !lines.some((line) => line.name === name)))
    lines = nobody ? lines.filter((line) => !isRotating(line) && !isStable(line)) : [...lines, named()]
  }
  const { method, override } = { method: random.pick(place.methods), override: random.chance(0.05) }
  return {
    place,
    key,
    host,
    hostText: host,
    method,
    segment: hex(random, 1, 6),
    query: random.chance(0.4) ? random.shuffled(['a=1', 'b=2', 'c', 'd=%20']).slice(0, random.between(1, 4)) : [],
    lines: random.shuffled(lines),
    certificate,
    content: drawContent(random, place),
    meaning: [
      ...override ? [[random.pick(OVERRIDES), 'PATCH'] as const] : [],
      ...random.chance(0.2) ? [[drawSemantics(random, place), hex(random, 1, 4)] as const] : []
    ],
    proxied: [],
    around: drawAround(random),
    unknown: [],
    wrong: [],
    absolute: false,
    elsewhere: null,
    deferred: place.mode === 'async' && random.chance(0.4),
    prefers: null,
    forged: false,
    spelled: random.chance(0.5)
  }
}

export function drawSemantics (random: Random, { sender }: Place): string {
  return random.pick(SEMANTICS.filter((name) => !sender.fields.includes(name)))
}

export function certificateOf (random: Random): string {
  return Array.from({ length: 6 }, () => hex(random, 2, 2).toUpperCase()).join(':')
}

const AROUND: ReadonlyArray<(random: Random) => readonly [string, string]> = [
  (random) => ['User-Agent', random.pick(['curl/8.1', 'stripe-node/14', 'Mozilla/5.0 (X11)', 'python-requests/2'])],
  (random) => ['Accept', random.pick(['*/*', 'application/json', 'text/html;q=0.8'])],
  (random) => ['Accept-Language', random.pick(['de', 'en-GB, en;q=0.5'])],
  () => ['Accept-Encoding', 'gzip, br'],
  (random) => ['traceparent', `00-${hex(random, 32, 32)}-${hex(random, 16, 16)}-01`],
  (random) => ['tracestate', `a=${hex(random, 4, 4)}`],
  (random) => ['X-B3-TraceId', hex(random, 16, 16)],
  (random) => ['X-Datadog-Trace-Id', hex(random, 16, 16)],
  (random) => ['X-Amzn-Trace-Id', `Root=1-${hex(random, 8, 8)}`],
  (random) => ['X-Correlation-Id', hex(random, 8, 8)],
  (random) => ['Baggage', `a=${hex(random, 2, 2)}`],
  (random) => ['Sentry-Trace', hex(random, 32, 32)],
  (random) => ['X-Stainless-Retry-Count', String(random.between(0, 3))],
  (random) => ['Stainless-Attempt', String(random.between(0, 3))],
  (random) => ['Referer', `https://shop.example/${hex(random, 2, 2)}`],
  () => ['Sec-Fetch-Mode', 'cors'],
  () => ['DNT', '1'],
  (random) => ['Cache-Control', random.pick(['no-cache', 'max-age=0'])],
  (random) => ['Via', `1.1 ${hex(random, 3, 3)}`],
  (random) => ['X-Forwarded-For', `10.0.0.${random.between(1, 250)}`],
  (random) => ['X-Real-IP', `10.0.0.${random.between(1, 250)}`],
  (random) => ['CF-Ray', hex(random, 16, 16)],
  (random) => ['Date', new Date(random.between(1, 2_000_000_000) * 1_000).toUTCString()],
  (random) => ['Postman-Token', hex(random, 16, 16)],
  () => ['X-Requested-With', 'XMLHttpRequest'],
  (random) => ['X-Page', String(random.between(1, 9))]
]

export function drawAround (random: Random): Fields {
  return random.shuffled(AROUND).slice(0, random.between(0, 5)).map((draw) => draw(random))
}

/** Names that sound as if they told who calls. */
const UNKNOWN = [
  'X-Acme-Token', 'My-Secret', 'X-Acme-Auth', 'Acme-Api-Key', 'X-Acme-Session', 'X-Acme-User', 'X-Acme-Tenant-Id',
  'X-Login', 'Acme-Password', 'X-Acme-Signature', 'X-Acme-Jwt', 'X-Acme-Key', 'X-Acme-Credential', 'Acme-Otp'
] as const

/** One that no part of the route's scope has made known. */
export function drawUnknown (random: Random, { telling }: Place): readonly [string, string] {
  return [random.pick(UNKNOWN.filter((name) => name !== telling.header?.name)), hex(random, 2, 8)]
}

// ---------------------------------------------------------------- as it is sent

export function render (random: Random, id: string, ask: Ask): Sent {
  const { place, content, spelled } = ask
  const body = bodyOf(ask)
  const line = (name: string, value: string, mayPad = false): [string, string] => spelled
    ? [cased(random, name), mayPad && random.chance(0.3) ? random.pick([` ${value}`, `${value} `, `\t${value} `]) : value]
    : [titled(name), value]
  const lines: Array<[string, string]> = [
    line('Host', ask.hostText),
    // What is compared is so as it came: no parser leaves spaces around it.
    ...place.sender.lines(random, ask.key).map(([name, value]) => line(name, value, !COMPARED_NAMES.has(name))),
    ...ask.lines.map(({ name, value }) => line(name, value.text, !COMPARED_NAMES.has(name))),
    ...ask.content.kind === 'none' ? [] : [line('Content-Type', contentTypeOf(content), true)],
    ...content.encoding === null ? [] : [line('Content-Encoding', content.encoding)],
    ...[...ask.meaning, ...ask.proxied].map(([name, value]) => line(name, value)),
    ...[...ask.around, ...ask.unknown, ...ask.wrong].map(([name, value]) => line(name, value)),
    ...ask.deferred ? [line('Prefer', 'respond-async')] : [],
    ...ask.prefers === null ? [] : [line('Prefer', ask.prefers)],
    ...signatureOf(ask, body, id).map(([name, value]) => line(name, value))
  ]
  const path = `${pathOf(ask)}${ask.query.length === 0 ? '' : `?${ask.query.join('&')}`}`
  return {
    id,
    method: ask.method,
    target: ask.elsewhere !== null ? `http://${ask.elsewhere}${path}` : ask.absolute ? `http://${ask.hostText}${path}` : path,
    host: ask.hostText,
    raw: (spelled ? random.shuffled(lines) : lines).flat(),
    body,
    certificate: ask.certificate
  }
}

function titled (name: string): string {
  return name.replace(/(?:^|[-_])[a-z]/g, (letter) => letter.toUpperCase())
}

export function pathOf ({ place: { path, kind }, segment }: Ask): string {
  return kind === 'open' ? `${path}/${segment}` : kind === 'param' ? `${path}/${segment}/capture` : path
}

function contentTypeOf ({ kind, type, parameters, boundary }: Content): string {
  return kind === 'multipart' ? `${type}; boundary=${boundary}${parameters}` : `${type}${parameters}`
}

function bodyOf ({ content: { kind, fields, boundary, wide }, place: { sender }, key }: Ask): Buffer {
  switch (kind) {
    case 'none': return Buffer.alloc(0)
    case 'json': {
      const inner = JSON.stringify(Object.fromEntries(fields), null, wide ? 2 : 0)
      return Buffer.from(sender.body === undefined ? inner : sender.body.around(key, inner))
    }
    case 'form': return Buffer.from(new URLSearchParams(Object.fromEntries(fields)).toString())
    case 'text': return Buffer.from(fields.map(([, value]) => value).join('\n'))
    case 'bytes': return Buffer.from(fields.map(([, value]) => `\0${value}\xff`).join(''), 'latin1')
    case 'multipart': return Buffer.from(`${fields.map(([name, value]) => `--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`).join('')}--${boundary}--\r\n`)
  }
}

function signatureOf ({ place: { signing }, forged }: Ask, body: Buffer, id: string): Fields {
  if (signing === null || signing === 'by-key-id') return []
  const secret = forged ? 'another one' : SIGNED_WITH
  const seconds = Math.floor(Date.now() / 1_000)
  const hmac = (encoding: 'hex' | 'base64', before = '', by: string | Buffer = secret): string =>
    createHmac('sha256', by).update(before).update(body).digest(encoding)
  switch (signing.scheme) {
    case 'github': return [['X-Hub-Signature-256', `sha256=${hmac('hex')}`]]
    case 'shopify': return [['X-Shopify-Hmac-Sha256', hmac('base64')]]
    case 'hmac': return [['X-Acme-Hmac', `v1=${hmac('hex')}`]]
    case 'stripe': return [['Stripe-Signature', `t=${seconds},v1=${hmac('hex', `${seconds}.`)}`]]
    case 'standard-webhooks': {
      const by = Buffer.from(forged ? 'another one' : SIGNED_WITH.slice('whsec_'.length), forged ? 'utf8' : 'base64')
      return [
        ['Webhook-Id', `msg_${id}`],
        ['Webhook-Timestamp', String(seconds)],
        ['Webhook-Signature', `v1,${hmac('base64', `msg_${id}.${seconds}.`, by)}`]
      ]
    }
  }
}

/** As somebody may send it again by hand. */
export function curlOf ({ method, target, raw, body, certificate }: Sent): string {
  const shown = (text: string): string => /[^\x20-\x7e]/.test(text)
    ? `$'${text.replace(/[^\x20-\x7e]/g, (letter) => `\\x${letter.charCodeAt(0).toString(16).padStart(2, '0')}`)}'`
    : `'${text}'`
  const lines = raw.flatMap((name, at) => at % 2 === 0 ? [`-H ${shown(`${name}: ${raw[at + 1] ?? ''}`)}`] : [])
  const data = body.length === 0 ? [] : [`--data-binary ${JSON.stringify(body.toString('latin1'))}`]
  return [
    `curl -X ${method} '${target}'`,
    ...lines,
    ...data,
    ...certificate === null ? [] : [`# with the client certificate ${certificate}`]
  ].join(' \\\n    ')
}
