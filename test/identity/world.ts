/**
 * A gateway's configuration, drawn: routes with their hosts, scopes, comparisons, modes, senders and words on signatures, and
 * the schemes by which its store makes ids. Beside what stands in the file each route says in plain terms what identifies there.
 */
import type { Random } from '../chaos/random.ts'
import { drawSender } from './senders.ts'
import type { Sender } from './senders.ts'

/** Names, and addresses that a gateway may be reached at. */
export const HOSTS = [
  'a.example', 'b.example', 'a.example:8443', 'example', 'b.example:8080', '10.0.0.7:8080', '[::1]:8080', 'localhost'
] as const

export const MODES = ['enforce', 'drop', 'inbox', 'async'] as const
export type Mode = typeof MODES[number]

/** What tells callers apart on a route. */
export interface Telling {
  readonly written: string | readonly string[]
  /** Carriers and selectors count; who shows none is nobody, or one of all. */
  readonly carriers: 'credential' | 'public' | null
  readonly header?: { readonly name: string, readonly optional: boolean }
  readonly cookie?: { readonly optional: boolean }
  readonly claim?: { readonly optional: boolean }
  readonly host: boolean
}

/** What chooses an account counts beside whatever else is named, but for callers who share their keys. */
export function countsSelectors ({ carriers, written }: Telling): boolean {
  return carriers !== null || ![written].flat().includes('shared')
}

const tenant = (optional: boolean, name = 'X-My-Tenant') => ({ header: { name, optional } })
const sid = (optional: boolean) => ({ cookie: { optional } })
const sub = (optional: boolean) => ({ claim: { optional } })
const NOTHING = { carriers: null, host: false } as const

export const SCOPES: ReadonlyArray<readonly [often: number, Telling]> = [
  [36, { ...NOTHING, written: 'credential', carriers: 'credential' }],
  [14, { ...NOTHING, written: 'public', carriers: 'public' }],
  [4, { ...NOTHING, written: 'shared' }],
  [3, { ...NOTHING, written: 'header:X-My-Tenant', ...tenant(false) }],
  [3, { ...NOTHING, written: 'header?:X-My-Tenant', ...tenant(true) }],
  [2, { ...NOTHING, written: 'header:X-Tenant', ...tenant(false, 'X-Tenant') }],
  [1, { ...NOTHING, written: 'header:X_User', ...tenant(false, 'X_User') }],
  [6, { ...NOTHING, written: ['credential', 'header?:X-My-Tenant'], carriers: 'credential', ...tenant(true) }],
  [3, { ...NOTHING, written: ['credential', 'header:X-Acme-Token'], carriers: 'credential', ...tenant(false, 'X-Acme-Token') }],
  [2, { ...NOTHING, written: ['public', 'header?:X-Tenant'], carriers: 'public', ...tenant(true, 'X-Tenant') }],
  [5, { ...NOTHING, written: ['public', 'cookie?:sid'], carriers: 'public', ...sid(true) }],
  [3, { ...NOTHING, written: 'cookie:sid', ...sid(false) }],
  [4, { ...NOTHING, written: 'jwt:sub', ...sub(false) }],
  [2, { ...NOTHING, written: 'jwt?:sub', ...sub(true) }],
  [2, { ...NOTHING, written: ['credential', 'jwt?:sub'], carriers: 'credential', ...sub(true) }],
  [2, { ...NOTHING, written: ['public', 'jwt?:sub'], carriers: 'public', ...sub(true) }],
  [3, { ...NOTHING, written: ['jwt:sub', 'header?:X-My-Tenant'], ...sub(false), ...tenant(true) }],
  [3, { ...NOTHING, written: ['host', 'credential'], carriers: 'credential', host: true }],
  [2, { ...NOTHING, written: ['header:X-My-Tenant', 'host'], ...tenant(false), host: true }],
  [2, { ...NOTHING, written: ['const:v1', 'cookie:sid'], ...sid(false) }],
  [2, { ...NOTHING, written: ['shared', 'host'], host: true }],
  [2, {
    ...NOTHING,
    written: ['public', 'host', 'header?:X-My-Tenant', 'cookie?:sid'],
    carriers: 'public',
    host: true,
    ...tenant(true),
    ...sid(true)
  }]
]

/** Which parts of a request are compared on a route. Method, target and host are, where anything is. */
export interface Compared {
  readonly any: boolean
  /** Media type, semantics and body. */
  readonly whole: boolean
  readonly body: 'auto' | 'json'
  readonly unordered: boolean
  /** Of a JSON body: all but `trace`, `amount` alone, or all. */
  readonly members: 'ignore' | 'only' | 'all'
  /** Of a field more. */
  readonly extra: boolean
}

export interface Verifying {
  readonly scheme: 'github' | 'shopify' | 'hmac' | 'stripe' | 'standard-webhooks'
  /** Lower case. */
  readonly fields: readonly string[]
}

export const VERIFYING: readonly Verifying[] = [
  { scheme: 'github', fields: ['x-hub-signature-256'] },
  { scheme: 'shopify', fields: ['x-shopify-hmac-sha256'] },
  { scheme: 'hmac', fields: ['x-acme-hmac'] },
  { scheme: 'stripe', fields: ['stripe-signature'] },
  {
    scheme: 'standard-webhooks',
    fields: ['webhook-id', 'webhook-timestamp', 'webhook-signature', 'svix-id', 'svix-timestamp', 'svix-signature']
  }
]

export const SIGNED_WITH = `whsec_${Buffer.from('only for this test, and no secret').toString('base64')}`

/** A route. */
export interface Place {
  readonly name: string
  /** What its path begins with, or all of it. */
  readonly path: string
  readonly kind: 'exact' | 'open' | 'param'
  /** It alone has them; null: any. */
  readonly hosts: readonly string[] | null
  readonly methods: readonly string[]
  readonly profile: 'api' | 'relay'
  readonly mode: Mode
  readonly sender: Sender
  readonly telling: Telling
  readonly signing: 'by-key-id' | Verifying | null
  /** Its upstream is told the host that was asked for. */
  readonly preserve: boolean
  readonly compared: Compared
  readonly mismatch: { readonly action: 'reject' | 'replay', readonly status: number }
  readonly duplicate: number
  /** Its `idempotency`, as the file has it. */
  readonly file: object
}

export interface World {
  readonly seed: number
  readonly places: readonly Place[]
  /** Every peer is one of trustProxies. */
  readonly trusted: boolean
  /** The names are made of these. */
  readonly scheme: SchemePlan
  /** What the store switches to between a first request and the second one; null: to nothing. */
  readonly next: SchemePlan | null
  /** Whatever is not by the second rules from the beginning to the end is promised less. */
  readonly firstRules: boolean
  /** A lock store keeps copies. */
  readonly locks: boolean
  readonly config: (upstream: string) => object
}

export interface SchemePlan { readonly rules: 1 | 2, readonly secret: string | null }

const SECRET = 'a secret that nobody can guess'
const OTHER = 'another secret, as good as that'
const plan = (rules: 1 | 2, secret: string | null): SchemePlan => ({ rules, secret })

export const SCHEMES: ReadonlyArray<readonly [often: number, SchemePlan, SchemePlan | null]> = [
  [38, plan(2, null), null],
  [38, plan(2, SECRET), null],
  [8, plan(2, null), plan(2, SECRET)],
  [6, plan(2, OTHER), plan(2, SECRET)],
  [2, plan(1, null), null],
  [2, plan(1, null), plan(2, null)],
  [2, plan(1, null), plan(2, SECRET)]
]

/** More than a world has pairs; the store lays out all its places at once. */
const MARKS = 10_000

export interface WorldOptions {
  readonly seed: number
  /** Where marks are kept. */
  readonly marks: 'memory' | 'database'
  /** false: the store's scheme stays. */
  readonly switches: boolean
}

function often<Kind> (random: Random, table: ReadonlyArray<readonly [number, ...Kind[]]>): readonly [number, ...Kind[]] {
  let left = random.float() * table.reduce((sum, [weight]) => sum + weight, 0)
  return table.find(([weight]) => (left -= weight) < 0) ?? table[0] as readonly [number, ...Kind[]]
}

export function drawWorld (random: Random, { seed, marks, switches }: WorldOptions): World {
  const schemes = SCHEMES.filter(([, , next]) => switches || next === null)
  const [, scheme, next] = often<SchemePlan | null>(random, schemes) as typeof SCHEMES[number]
  const trusted = random.chance(0.4)
  const places = [
    ...drawTwins(random, marks),
    ...[1, 2, 3].flatMap((number) => random.chance(0.75) ? [drawPlace(random, `p${number}`, marks)] : [])
  ]
  return {
    seed,
    places,
    trusted,
    scheme,
    next,
    firstRules: scheme.rules === 1,
    locks: random.chance(0.5),
    config: (url) => ({
      version: 1,
      ...secretsOf(scheme, next),
      trustProxies: trusted ? ['127.0.0.1'] : [],
      upstreams: { plain: { url }, told: { url, host: 'preserve' } },
      routes: places.map((place) => ({
        name: place.name,
        match: { path: matchOf(place), methods: place.methods, ...place.hosts !== null && { host: place.hosts[0] } },
        upstream: place.preserve ? 'told' : 'plain',
        idempotency: place.file
      }))
    })
  }
}

function secretsOf ({ secret: before }: SchemePlan, next: SchemePlan | null): object {
  const [secret, previousSecret] = [next?.secret ?? null, before].filter((text) => text !== null)
  return { ...secret !== undefined && { secret }, ...previousSecret !== undefined && { previousSecret } }
}

function matchOf ({ path, kind }: Place): string {
  return kind === 'open' ? `${path}/*` : kind === 'param' ? `${path}/:id/capture` : path
}

/** One path, and a route for each of two hosts. */
function drawTwins (random: Random, marks: WorldOptions['marks']): Place[] {
  const one = drawPlace(random, 'twin', marks)
  const other = random.chance(0.6) ? one : drawPlace(random, 'twin', marks)
  const { path, kind } = one
  return [
    { ...one, name: 'twin-a', hosts: ['a.example', 'a.example:8443'] },
    { ...other, path, kind, name: 'twin-b', hosts: ['b.example'] }
  ]
}

function drawPlace (random: Random, name: string, marks: WorldOptions['marks']): Place {
  const sender = drawSender(random)
  const profile = random.chance(0.35) ? 'relay' : 'api'
  // What keeps no answer cannot repeat one.
  const mode = random.weighted<Mode>({ enforce: 60, drop: sender.from === 'repeatability' ? 0 : 12, inbox: 15, async: 13 })
  const ownScope = sender.event && random.chance(0.6) ? senderScope(sender) : null
  const telling = ownScope ?? often(random, SCOPES)[1] as Telling
  const signing = drawSigning(random, sender)
  const { compared, fingerprint } = drawComparison(random, sender, profile, mode)
  const replays = compared.any && random.chance(0.05)
  const duplicate = random.pick([200, 202, 204])
  const file = {
    profile,
    mode: mode === 'async' ? 'enforce' : mode,
    ...mode === 'async' && { async: 'allowed' },
    ...mode === 'drop' && {
      drop: { store: marks, mark: random.pick(['after', 'before']), status: duplicate, ...marks === 'memory' && { capacity: MARKS } }
    },
    key: { from: sender.from, required: random.chance(0.3) },
    ...ownScope === null && { scope: telling.written },
    ...telling.claim !== undefined && { jwt: { jwks: 'https://issuer.example/keys' } },
    ...signing !== null && { verify: signing === 'by-key-id' ? signing : verifyFile(signing) },
    ...fingerprint !== undefined && { fingerprint },
    ...replays && { onMismatch: { action: 'replay' } },
    ...random.chance(0.9) && { inFlight: { wait: '0s' } }
  }
  return {
    name,
    path: `/${random.pick(['v1', 'v2', 'api'])}/${name}`,
    kind: random.pick(['exact', 'open', 'param']),
    hosts: null,
    methods: random.pick([['POST', 'PATCH'], ['POST', 'PUT', 'DELETE'], ['POST', 'PATCH', 'PUT', 'DELETE']]),
    profile,
    mode,
    sender,
    telling,
    signing,
    preserve: random.chance(0.3),
    compared,
    mismatch: { action: replays ? 'replay' : 'reject', status: !replays && sender.mismatch !== undefined ? sender.mismatch : 422 },
    duplicate,
    file
  }
}

function senderScope ({ scope }: Sender): Telling {
  if (scope === undefined) return { ...NOTHING, written: 'shared' }
  return { ...NOTHING, written: scope, ...tenant(false, scope.slice('header:'.length)) }
}

function drawSigning (random: Random, { fields }: Sender): Place['signing'] {
  if (random.chance(0.72)) return null
  if (random.chance(0.4)) return 'by-key-id'
  return random.pick(VERIFYING.filter((verifying) => !verifying.fields.some((name) => fields.includes(name))))
}

function verifyFile ({ scheme }: Verifying): object {
  return { scheme, secret: SIGNED_WITH, ...scheme === 'hmac' && { hmac: { header: 'X-Acme-Hmac', prefix: 'v1=' } } }
}

function drawComparison (
  random: Random,
  sender: Sender,
  profile: Place['profile'],
  mode: Mode
): { readonly compared: Compared, readonly fingerprint?: unknown } {
  const whole = profile === 'api' && !sender.event
  const usual: Compared = { any: true, whole, body: 'auto', unordered: false, members: 'all', extra: false }
  if (mode === 'drop') return { compared: { ...usual, any: false, whole: false } }
  const mayName = sender.body === undefined ? 7 : 0
  switch (random.weighted({ usual: 70, json: 7, unordered: 5, extra: 5, none: 4, ignore: mayName, only: mayName })) {
    case 'usual': return { compared: usual }
    case 'json': return { compared: { ...usual, whole: true, body: 'json' }, fingerprint: { body: 'json' } }
    case 'ignore':
      return { compared: { ...usual, whole: true, body: 'json', members: 'ignore' }, fingerprint: { body: 'json', ignore: ['/trace'] } }
    case 'only':
      return { compared: { ...usual, whole: true, body: 'json', members: 'only' }, fingerprint: { body: 'json', only: ['/amount'] } }
    case 'unordered': return { compared: { ...usual, whole: profile === 'api', unordered: true }, fingerprint: { query: 'unordered' } }
    case 'extra': return { compared: { ...usual, whole: profile === 'api', extra: true }, fingerprint: { headers: ['X-Extra'] } }
    case 'none': return { compared: { ...usual, any: false, whole: false }, fingerprint: 'none' }
  }
}
