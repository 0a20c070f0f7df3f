/**
 * Ways to every problem of the table, each as many times as it is asked for: what is started once, and a round of requests
 * whose answers must be that problem. Every value that a client chooses is a canary.
 */
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { keyHeaderOf, readKeySources } from '../../src/config/routes/key-source.ts'
import { MESSAGES_PATH } from '../../src/core/inbox/acceptance.ts'
import { ISSUED_KEYS_PATH } from '../../src/core/key/issued-keys.ts'
import { readPointer } from '../../src/core/json/pointer.ts'
import type { IdempotencyPolicy, InboxPolicy, KeyPolicy, ScopePart, ScopePolicy, VerifyPolicy } from '../../src/core/policy/policy.ts'
import type { ProblemCode } from '../../src/core/protocol/problems.ts'
import { MemoryStore } from '../../src/store/memory/records.ts'
import { startInbox } from '../gateway/inbox/inbox-world.ts'
import { bearing, bySubject, inFile, makeIssuer, tokenOf, unsigned } from '../gateway/scope/jwt-world.ts'
import { callRaw } from '../harness/call.ts'
import { DOWN, fail, faulty } from '../harness/faulty-store.ts'
import { apiPolicy, guardedRoute, startGateway, startGuarded } from '../harness/gateway.ts'
import type { GuardedOptions } from '../harness/gateway.ts'
import type { Behaviour } from '../harness/witness.ts'
import { requestText, targetOf } from './canaries.ts'
import type { Draw, Written } from './canaries.ts'

export interface Provocation {
  readonly code: ProblemCode
  readonly what: string
  /** Rounds know nothing of each other: they may be played at once. */
  readonly apart?: boolean
  readonly start: (t: TestContext) => Promise<Round>
}

/** The answers that must be the problem; those before them are not given back. */
export type Round = (draw: Draw) => Promise<readonly string[]>

type Make = (draw: Draw) => Written

/** One gateway, one request a round. */
function asked (code: ProblemCode, what: string, options: GuardedOptions, make: Make): Provocation {
  return {
    code,
    what,
    apart: true,
    start: async (t) => {
      const { url } = await startGuarded(t, { answer: ECHO, ...options })
      return async (draw) => [await callRaw(url, requestText(draw, make(draw)))]
    }
  }
}

/** As a client of an upstream that repeats everything would have it. None of that is the gateway's to repeat. */
export const ECHO: Behaviour = ({ target, rawHeaders, body }, response) => {
  response.writeHead(201, ['Location', target, 'X-Echo', rawHeaders.join(' ').replaceAll(/[^\x20-\x7e]/g, '')])
  response.end(body)
}

const withKey = (draw: Draw, key = draw.canary('the key')): string => `Idempotency-Key: ${key}`

// ---------------------------------------------------------------- keys

function keyed (from: string | readonly string[], changes: Partial<KeyPolicy> = {}): Partial<IdempotencyPolicy> {
  const read = readKeySources(from)
  if ('wrong' in read) throw new Error(read.wrong)
  return {
    key: {
      sources: read.value,
      header: keyHeaderOf(read.value),
      required: true,
      syntax: 'lenient',
      store: 'text',
      windowMs: 86_400_000,
      ...changes
    }
  }
}

const json = (draw: Draw, body: string): Written => ({
  fields: ['Content-Type: application/json'],
  body: body.replaceAll('*', () => draw.canary('the body'))
})

const WITHOUT_KEY: ReadonlyArray<readonly [from: string | readonly string[], make: Make]> = [
  ['header:Idempotency-Key', () => ({})],
  ['header:X-Operation', (draw) => ({ fields: [withKey(draw)] })],
  ['query:operation', () => ({})],
  [['header:Idempotency-Key', 'json:/id'], (draw) => json(draw, '{"other":"*","*":1}')],
  ['json:/event/id', (draw) => json(draw, '{"event":"*"}')],
  ['json:/event/id', (draw) => json(draw, '* is no JSON')],
  ['json:/event/id', (draw) => json(draw, `${'['.repeat(200)}"*"${']'.repeat(200)}`)],
  ['hash:/id,/type', (draw) => json(draw, '{"id":"*"}')],
  ['template:{header:X-Topic}:{json:/id}', (draw) => ({
    fields: [`X-Other: ${draw.canary('X-Other')}`],
    body: `{"id":"${draw.canary('the body')}"}`
  })],
  ['template:{header:X-Topic}:{query:n}', (draw) => ({ fields: [`X-Topic: ${draw.canary('X-Topic')}`] })],
  ['github', () => ({})],
  ['shopify', (draw) => ({ fields: [`X-Shopify-Event-Id: ${draw.canary('the event')}`] })],
  ['cloudevents', (draw) => ({ fields: [`ce-source: ${draw.canary('ce-source')}`] })],
  ['cloudevents', (draw) => ({
    ...json(draw, '{"source":"*","specversion":"*"}'),
    fields: ['Content-Type: application/cloudevents+json']
  })],
  ['pubsub', (draw) => json(draw, '{"message":{"data":"*"},"subscription":"*"}')],
  ['eventgrid', () => ({})],
  ['debezium-outbox', () => ({})],
  ['repeatability', (draw) => ({ fields: [`Repeatability-Request-ID: ${draw.canary('the request id')}`] })]
]

const INVALID_KEY: ReadonlyArray<readonly [what: string, policy: Partial<IdempotencyPolicy>, make: Make]> = [
  ['two lines', {}, (draw) => ({ fields: [withKey(draw), withKey(draw)] })],
  ['a space', {}, (draw) => ({ fields: [withKey(draw, `${draw.canary('the key')} ${draw.canary('the key')}`)] })],
  ['a broken quotation', {}, (draw) => ({ fields: [withKey(draw, `"${draw.canary('the key')}`)] })],
  ['too long', {}, (draw) => ({ fields: [withKey(draw, draw.canary('the key').repeat(20))] })],
  ['not quoted', keyed('header:Idempotency-Key', { syntax: 'strict' }), (draw) => ({ fields: [withKey(draw)] })],
  ['twice in the query', keyed('query:operation'), (draw) => ({
    target: `${targetOf(draw)}&operation=${draw.canary('the key')}&operation=${draw.canary('the key')}`
  })],
  ['no percent-encoding', keyed('query:operation'), (draw) => ({ target: `${targetOf(draw)}&operation=%zz${draw.canary('the key')}` })],
  ['a document in the body', keyed('json:/id'), (draw) => json(draw, '{"id":{"*":"*"}}')],
  ['twice in the body', keyed('json:/id'), (draw) => json(draw, '{"id":"*","id":"*"}')],
  ['control characters', keyed('json:/id'), (draw) => json(draw, '{"id":"*\\u0000*"}')],
  [
    'too long together',
    keyed('template:{header:X-A}{header:X-B}{header:X-C}{header:X-D}{header:X-E}'),
    (draw) => ({ fields: ['A', 'B', 'C', 'D', 'E'].map((name) => `X-${name}: ${draw.canary(`X-${name}`).repeat(12)}`) })
  ],
  ['no Base64', keyed('debezium-outbox'), (draw) => ({ fields: [`X-Debezium-Id: ${draw.canary('the key')}!`] })],
  ['a batch of events', keyed('cloudevents'), (draw) => ({
    ...json(draw, '[{"id":"*","source":"*"}]'),
    fields: [`Content-Type: application/cloudevents-batch+json; charset=${draw.canary('a parameter')}`]
  })],
  ['events in another format', keyed('cloudevents'), (draw) => ({
    fields: [`Content-Type: application/cloudevents+${draw.canary('the media type')}`]
  })],
  ['a date that is none', keyed('repeatability'), (draw) => ({
    fields: [`Repeatability-Request-ID: ${draw.canary('the key')}`, `Repeatability-First-Sent: ${draw.canary('the date')}`]
  })],
  ['two lines of a sender\'s', keyed('standard-webhooks'), (draw) => ({
    fields: [`webhook-id: ${draw.canary('the key')}`, `webhook-id: ${draw.canary('the key')}`]
  })],
  ['too long for a sender\'s', keyed('github'), (draw) => ({ fields: [`X-GitHub-Delivery: ${draw.canary('the key').repeat(20)}`] })],
  ['two clients', keyed('repeatability'), (draw) => ({
    fields: [
      `Repeatability-Request-ID: ${draw.canary('the key')}`,
      `Repeatability-First-Sent: ${new Date().toUTCString()}`,
      ...['', ''].map(() => `Repeatability-Client-ID: ${draw.canary('the client')}`)
    ]
  })],
  [
    'issued by nobody',
    {
      issued: {
        scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
        jwt: null,
        secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
        lifetimeMs: 3_600_000
      }
    },
    (draw) => ({ fields: [withKey(draw, `owk1.one.1.2.${draw.canary('the key')}xxxx.${draw.canary('the key').repeat(3).slice(0, 43)}`)] })
  ]
]

const KEYS: readonly Provocation[] = [
  ...WITHOUT_KEY.map(([from, make]) => asked('key-missing', String(from), { policy: keyed(from) }, make)),
  ...INVALID_KEY.map(([what, policy, make]) => asked('key-invalid', what, { policy }, make)),
  asked('key-too-old', 'a quarter of a century ago', { policy: keyed('repeatability') }, (draw) => ({
    fields: [
      `Repeatability-Request-ID: ${draw.canary('the key')}`,
      `Repeatability-Client-ID: ${draw.canary('the client')}`,
      'Repeatability-First-Sent: Wed, 21 Nov 2001 18:00:00 GMT'
    ]
  })),
  inbox('key-missing', 'an item of a batch', { batch: 'split' }, keyed('json:/id'), (draw) => json(draw, '[{"id":"*"},{"*":"*"}]')),
  inbox('key-invalid', 'an item of a batch', { batch: 'split' }, keyed('json:/id'), (draw) => json(draw, '[{"id":"*"},{"id":["*"]}]')),
  inbox('key-invalid', 'a batch where none is taken', {}, keyed('cloudevents'), (draw) => ({
    ...json(draw, '[{"id":"*","source":"*"},{"id":"*","source":"*"}]'),
    fields: ['Content-Type: application/cloudevents-batch+json']
  }))
]

/** `mode: inbox`; one request a round. */
function inbox (
  code: ProblemCode,
  what: string,
  changes: Partial<InboxPolicy>,
  policy: Partial<IdempotencyPolicy>,
  make: Make
): Provocation {
  return {
    code,
    what: `inbox: ${what}`,
    start: async (t) => {
      const { url } = await startInbox(t, { inbox: changes, policy })
      return async (draw) => [await callRaw(url, requestText(draw, make(draw)))]
    }
  }
}

// ---------------------------------------------------------------- callers

const scoped = (...parts: readonly ScopePart[]): { readonly scope: ScopePolicy } => ({ scope: { kind: 'parts', parts } })
const credential = (line: (draw: Draw) => string): Make => (draw) => ({ caller: null, fields: [withKey(draw), line(draw)] })

const NO_CALLER: ReadonlyArray<readonly [what: string, policy: Partial<IdempotencyPolicy>, make: Make]> = [
  ['nothing but a cookie', {}, credential((draw) => `Cookie: session=${draw.canary('Cookie')}`)],
  ['nothing', { scope: { kind: 'credential', anonymous: false, cookies: 'ignore' } }, credential(() => '')],
  ['a signature without a key id', {}, credential((draw) =>
    `Authorization: Signature ${draw.canary('a parameter')}="${draw.canary('its value')}"`)],
  ['a digest that cannot be read', {}, credential((draw) =>
    `Authorization: Digest ${draw.canary('a parameter')} ${draw.canary('another')}`)],
  ['AWS without a credential', {}, credential((draw) => `Authorization: AWS4-HMAC-SHA256 Signature=${draw.canary('a signature')}`)],
  ['two API keys', {}, credential((draw) => `X-Api-Key: ${draw.canary('X-Api-Key')}\r\nX-Api-Key: ${draw.canary('X-Api-Key')}`)],
  ['no such header', scoped({ kind: 'header', name: 'X-Tenant' }), (draw) => ({ fields: [withKey(draw)] })],
  [
    'two such headers',
    scoped({ kind: 'header', name: 'X-Tenant' }),
    (draw) => ({ fields: [withKey(draw), `X-Tenant: ${draw.canary('X-Tenant')}`, `X-Tenant: ${draw.canary('X-Tenant')}`] })
  ],
  ['no such cookie', scoped({ kind: 'cookie', name: 'tenant' }), (draw) => ({ fields: [withKey(draw)] })],
  [
    'two such cookies',
    scoped({ kind: 'cookie', name: 'tenant' }),
    (draw) => ({ fields: [withKey(draw), `Cookie: tenant=${draw.canary('Cookie')}; tenant=${draw.canary('Cookie')}`] })
  ],
  ['no token', bySubject('/nowhere'), credential((draw) => `Authorization: Basic ${draw.canary('Basic')}`)]
]

const nowSeconds = (): number => Math.floor(Date.now() / 1_000)

const CALLERS: readonly Provocation[] = [
  ...NO_CALLER.map(([what, policy, make]) => asked('scope-missing', what, { policy }, make)),
  asked('scope-unavailable', 'keys in no file', { policy: bySubject('/nowhere/keys.json') }, (draw) => ({
    caller:
      `Authorization: ${bearing(unsigned({ alg: 'ES256', kid: draw.canary('kid') }, { sub: draw.canary('sub') })).headers.Authorization}`,
    fields: [withKey(draw)]
  })),
  {
    code: 'token-invalid',
    what: 'every fault of a token',
    start: async (t) => {
      const issuer = await makeIssuer()
      const policy = bySubject(await inFile(t, issuer.jwks), { issuer: 'https://issuer.example' })
      const { url } = await startGuarded(t, { policy, answer: ECHO })
      return async (draw) => {
        const claims = { sub: draw.canary('sub'), [draw.canary('the name of a claim')]: draw.canary('a claim') }
        const good = { ...claims, iss: 'https://issuer.example' }
        const tokens = [
          draw.canary('the token'),
          `${draw.canary('the token')}.${draw.canary('the token')}.${draw.canary('the token')}`,
          await tokenOf(issuer, { ...good, exp: nowSeconds() - 3_600 }),
          await tokenOf(issuer, { ...good, nbf: nowSeconds() + 3_600 }),
          await tokenOf(issuer, { ...claims, iss: `https://${draw.canary('iss')}.example` }),
          await tokenOf({ ...issuer, kid: draw.canary('kid') }, good),
          await tokenOf(await makeIssuer(issuer.kid), good),
          unsigned({ alg: draw.canary('alg') }, good),
          unsigned({ alg: 'ES256', kid: issuer.kid, crit: [draw.canary('crit')] }, good)
        ]
        const answers = []
        for (const token of tokens) {
          answers.push(await callRaw(url, requestText(draw, { caller: `Authorization: Bearer ${token}`, fields: [withKey(draw)] })))
        }
        return answers
      }
    }
  },
  {
    code: 'scope-missing',
    what: 'a token without the claim',
    start: async (t) => {
      const issuer = await makeIssuer()
      const { url } = await startGuarded(t, { policy: bySubject(await inFile(t, issuer.jwks)) })
      return async (draw) => {
        const token = await tokenOf(issuer, { sub: { [draw.canary('sub')]: 1 } as unknown as string, other: draw.canary('a claim') })
        return [await callRaw(url, requestText(draw, { caller: `Authorization: Bearer ${token}`, fields: [withKey(draw)] }))]
      }
    }
  }
]

const verify = (scheme: VerifyPolicy['scheme']): Pick<IdempotencyPolicy, 'verify'> => ({
  verify: {
    scheme,
    secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
    toleranceMs: 300_000,
    hmac: scheme === 'hmac' ? { header: 'x-signature', algorithm: 'sha256', encoding: 'hex', prefix: 'v=' } : null
  }
})
const hmac = (draw: Draw): string => createHmac('sha256', draw.canary('a secret')).digest('hex')

const SIGNATURES: ReadonlyArray<readonly [what: string, scheme: VerifyPolicy['scheme'], fields: (draw: Draw) => readonly string[]]> = [
  ['none', 'github', () => []],
  ['malformed', 'github', (draw) => [`X-Hub-Signature-256: ${draw.canary('the signature')}`]],
  ['no hexadecimal', 'github', (draw) => [`X-Hub-Signature-256: sha256=${draw.canary('the signature')}`]],
  ['wrong', 'github', (draw) => [`X-Hub-Signature-256: sha256=${hmac(draw)}`]],
  ['two', 'shopify', (draw) => [
    `X-Shopify-Hmac-Sha256: ${draw.canary('a signature')}`,
    `X-Shopify-Hmac-Sha256: ${draw.canary('a signature')}`
  ]],
  ['of no time', 'stripe', (draw) => [`Stripe-Signature: t=${draw.canary('the time')},v1=${hmac(draw)}`]],
  ['of another time', 'stripe', (draw) => [
    `Stripe-Signature: t=1,v1=${hmac(draw)},${draw.canary('a member')}=${draw.canary('its value')}`
  ]],
  ['of two families', 'standard-webhooks', (draw) => ['webhook', 'svix'].flatMap((family) => [
    `${family}-id: ${draw.canary('the id')}`,
    `${family}-timestamp: 1`,
    `${family}-signature: v1,${draw.canary('the signature')}`
  ])],
  ['without a version', 'standard-webhooks', (draw) => [
    `webhook-id: ${draw.canary('the id')}`,
    `webhook-timestamp: ${nowSeconds()}`,
    `webhook-signature: ${draw.canary('the signature')}`
  ]],
  ['without its prefix', 'hmac', (draw) => [`X-Signature: ${draw.canary('the signature')}`]]
]

// ---------------------------------------------------------------- other requests with the key, before or beside it

/** One after the other, of one caller; the last is the one. `first` is answered as the upstream does. */
function afterwards (
  code: ProblemCode,
  what: string,
  options: GuardedOptions,
  make: (draw: Draw) => readonly [first: Written, second: Written]
): Provocation {
  return {
    code,
    what,
    start: async (t) => {
      const { url } = await startGuarded(t, { answer: ECHO, ...options })
      return async (draw) => {
        const [first, second] = make(draw)
        await callRaw(url, requestText(draw, first))
        return [await callRaw(url, requestText(draw, second))]
      }
    }
  }
}

/** The second while the first is under way. */
function beside (
  code: ProblemCode,
  what: string,
  options: GuardedOptions,
  make: (draw: Draw) => readonly [first: Written, second: Written]
): Provocation {
  return {
    code,
    what,
    start: async (t) => {
      let release = Promise.withResolvers<void>()
      const answer: Behaviour = async (...args) => {
        await release.promise
        await ECHO(...args)
      }
      const { url, witness } = await startGuarded(t, { answer, ...options })
      return async (draw) => {
        release = Promise.withResolvers<void>()
        const [first, second] = make(draw)
        const running = callRaw(url, requestText(draw, first))
        await witness.reached(witness.seen.length + 1)
        const answers = [await callRaw(url, requestText(draw, second))]
        release.resolve()
        await running
        return answers
      }
    }
  }
}

function twice (draw: Draw, more: (draw: Draw) => Written = () => ({})): readonly [Written, Written] {
  const [key, target, body] = [withKey(draw), targetOf(draw), draw.canary('the body')]
  return [{ target, fields: [key], body }, { target, fields: [key], body, ...more(draw) }]
}

const another = (draw: Draw): Written => ({ body: draw.canary('another body') })
const apart = (draw: Draw): readonly [Written, Written] => [{ fields: [withKey(draw)] }, { fields: [withKey(draw)] }]
const limits = (
  changes: object
): {
  readonly limits: {
    readonly share: number
    readonly executions: number
    readonly waiters: number
    readonly inFlightPerScope: number
    readonly bufferedBytes: number
    readonly unsettledBytes: number
    readonly recentBytes: number
  }
} =>
  ({
    limits: {
      share: 1,
      executions: 100,
      waiters: 100,
      inFlightPerScope: 0,
      bufferedBytes: 1024 * 1024,
      unsettledBytes: 1024 * 1024,
      recentBytes: 1024 * 1024,
      ...changes
    }
  })

const OTHERS: readonly Provocation[] = [
  afterwards('key-reused', 'another body', {}, (draw) => twice(draw, another)),
  afterwards(
    'key-reused',
    'another target, told as the route says',
    { policy: { onMismatch: { action: 'reject', status: 409 }, retryHints: true } },
    (draw) => twice(draw, () => ({ target: targetOf(draw) }))
  ),
  inbox('key-reused', 'one key twice in a batch', { batch: 'split' }, {
    ...keyed('json:/id'),
    fingerprint: { of: ['method', 'target', 'body'], body: 'json' }
  }, (draw) => {
    const id = draw.canary('the key')
    return json(draw, `[{"id":"${id}","n":"*"},{"id":"${id}","n":"*"}]`)
  }),
  beside('in-flight', 'a duplicate', { policy: { retryHints: true } }, (draw) => twice(draw)),
  afterwards(
    'in-flight',
    'its own answer takes too long',
    {
      policy: { answerWithinMs: 1 },
      answer: async (...args) => { await new Promise((resolve) => { setTimeout(resolve, 50) }); await ECHO(...args) }
    },
    (draw) => apart(draw)
  ),
  beside('too-many-in-flight', 'of one caller', { world: limits({ inFlightPerScope: 1 }) }, apart),
  afterwards('too-many-records', 'of one caller', { policy: { recordsPerCaller: 1 } }, apart),
  afterwards(
    'outcome-unknown',
    'a connection that breaks',
    { answer: (_seen, _response, socket) => { socket.resetAndDestroy() } },
    (draw) => twice(draw)
  ),
  afterwards(
    'answer-not-kept',
    'too large to keep',
    { policy: { keep: { ...apiPolicy().keep, responseBytesMax: 10 } } },
    (draw) => twice(draw)
  )
]

// ---------------------------------------------------------------- the gateway and its stores

/** Nobody listens there. */
async function nobody (): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return `http://127.0.0.1:${port}`
}

const plainly: Make = (draw) => ({ fields: [withKey(draw)] })
const keyless: Make = () => ({})
const silent: Behaviour = () => {}

const STATES: readonly Provocation[] = [
  asked('overloaded', 'no place for an execution', { world: limits({ executions: 0 }) }, plainly),
  {
    code: 'overloaded',
    what: 'inbox: full',
    start: async (t) => {
      const { url, ask } = await startInbox(t, { inbox: { depthMax: 1 } })
      await ask('only')
      return async (draw) => [await callRaw(url, requestText(draw, plainly(draw)))]
    }
  },
  asked('request-too-large', 'the route takes less', { policy: { keep: { ...apiPolicy().keep, requestBytesMax: 10 } } }, plainly),
  asked('request-timeout', 'a body that does not come', { server: { requestBodyMs: 20 } }, (draw) => ({ ...plainly(draw), length: 1_000 })),
  asked('upstream-timeout', 'passed through', { upstream: { idleMs: 20 }, answer: silent }, keyless),
  asked('upstream-failed', 'passed through', { answer: (_seen, _response, socket) => { socket.destroy() } }, keyless),
  {
    code: 'store-unavailable',
    what: 'no arbiter',
    start: async (t) => {
      const records = faulty(new MemoryStore({ nowMs: Date.now }))
      const { url } = await startGuarded(t, { background: false, world: { records: records.store } })
      fail(records, DOWN)
      return async (draw) => [await callRaw(url, requestText(draw, plainly(draw)))]
    }
  },
  {
    code: 'draining',
    what: 'on its way out',
    start: async (t) => {
      const { url, gateway } = await startGuarded(t)
      gateway.drain.advance('refusing')
      return async (draw) => [await callRaw(url, requestText(draw, plainly(draw)))]
    }
  },
  ...[plainly, keyless].map((make, index): Provocation => ({
    code: 'upstream-unreachable',
    what: index === 0 ? 'guarded' : 'passed through',
    start: async (t) => {
      const { url } = await startGateway(t, { routes: [guardedRoute(await nobody())] })
      return async (draw) => [await callRaw(url, requestText(draw, make(draw)))]
    }
  })),
  {
    code: 'no-route',
    what: 'another path, another method, no path',
    start: async (t) => {
      const route = guardedRoute(await nobody())
      const { url } = await startGateway(t, {
        routes: [{ ...route, match: { ...route.match, path: '/v1/charges', host: 'charges.example' } }]
      })
      const written: readonly Written[] = [{}, { method: 'DELETE' }, { target: '/v1/charges' }, { method: 'OPTIONS', target: '*' }]
      return async (draw) => Promise.all(written.map(async (each) => callRaw(url, requestText(draw, each))))
    }
  },
  {
    code: 'no-message',
    what: 'no such id, another spelling, another caller\'s',
    start: async (t) => {
      const { url } = await startInbox(t)
      return async (draw) => {
        const accepted = await callRaw(url, requestText(draw, plainly(draw)))
        const [, location = ''] = /\r\nLocation: (\S+)/i.exec(accepted) ?? []
        const written: readonly Written[] = [
          { target: `${MESSAGES_PATH}/${draw.canary('the id')}` },
          { target: `${MESSAGES_PATH}/${draw.chance.bytes(32).toString('base64url')}?${draw.canary('the query')}` },
          { target: `${location}?${draw.canary('the query')}`, caller: `X-Api-Key: ${draw.canary('another caller')}` }
        ]
        return Promise.all(written.map(async (each) => callRaw(url, requestText(draw, { method: 'GET', body: '', ...each }))))
      }
    }
  },
  {
    code: 'store-unavailable',
    what: 'how a message stands',
    start: async (t) => {
      const { url, faults } = await startInbox(t)
      faults.set('look', DOWN)
      return async (draw) => [await callRaw(url, requestText(draw, {
        method: 'GET',
        target: `${MESSAGES_PATH}/${draw.chance.bytes(32).toString('base64url')}`,
        body: ''
      }))]
    }
  }
]

// ---------------------------------------------------------------- what is no request

const ISSUED = {
  scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
  jwt: null,
  secrets: [{ id: 'one', secret: 'a secret of thirty-two bytes, or more' }],
  lifetimeMs: 3_600_000
} as const
const UPGRADE = [
  'Connection: Upgrade, close',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=='
]

/** A parameter, a backslash and a fragment, each behind more rounds of decoding than the next. */
const MANY_READINGS = [[30, '3b'], [20, '5c'], [10, '23']]
  .map(([rounds, character]) => `%${'25'.repeat(Number(rounds))}${character}x`)
  .join('/')

const MALFORMED: ReadonlyArray<readonly [what: string, make: Make]> = [
  ['two hosts', (draw) => ({ fields: [`Host: ${draw.canary('another Host')}`] })],
  ['a host beside a host', (draw) => ({ target: `http://${draw.canary('the host of the target')}.example/${draw.canary('the path')}` })],
  ['a user in the target', (draw) => ({ target: `http://${draw.canary('the user')}@${draw.canary('the host of the target')}/` })],
  ['neither path nor URL', (draw) => ({ target: draw.canary('the target') })],
  ['an asterisk', (draw) => ({ target: '*', fields: [withKey(draw)] })],
  ['a dot segment', (draw) => ({ target: `/${draw.canary('the path')}/../${draw.canary('the path')}` })],
  ['an escaped dot segment', (draw) => ({ target: `/${draw.canary('the path')}%2f%2e%2e%2f${draw.canary('the path')}` })],
  ['a dot segment in a WebSocket\'s path', (draw) => ({
    method: 'GET',
    target: `/${draw.canary('the path')}/../${draw.canary('the path')}`,
    body: '',
    framing: '',
    fields: UPGRADE
  })],
  ['a NUL', (draw) => ({ target: `/${draw.canary('the path')}%00${draw.canary('the path')}` })],
  ['an escape that is none', (draw) => ({ target: `/${draw.canary('the path')}%zz` })],
  ['an escape that does not decode', (draw) => ({ target: `/${draw.canary('the path')}%ff?${draw.canary('the query')}` })],
  ['too many readings', (draw) => ({ target: `//${draw.canary('the path')}/${MANY_READINGS}` })],
  ['two credentials', (draw) => ({ fields: [`Authorization: Basic ${draw.canary('another credential')}`] })],
  ['two media types', (draw) => ({
    fields: [`Content-Type: text/${draw.canary('a media type')}`, `Content-Type: text/${draw.canary('a media type')}`]
  })],
  ['an expectation', (draw) => ({ fields: [`Expect: ${draw.canary('the expectation')}`] })],
  ['a key that is taken away', (draw) => ({ fields: [withKey(draw), `Connection: close, idempotency-key, ${draw.canary('an option')}`] })],
  ['a transfer coding', (draw) => ({ framing: `Transfer-Encoding: ${draw.canary('the coding')}` })],
  ['two framings', (draw) => ({ framing: `Transfer-Encoding: chunked\r\nContent-Length: 4\r\nX-More: ${draw.canary('X-More')}` })],
  ['two lengths', (draw) => ({ framing: `Content-Length: 4\r\nContent-Length: 5\r\nX-More: ${draw.canary('X-More')}` })],
  ['a length that is none', (draw) => ({ framing: `Content-Length: ${draw.canary('the length')}` })],
  ['a chunk that is none', (draw) => ({
    fields: [withKey(draw)],
    framing: 'Transfer-Encoding: chunked',
    body: `${draw.canary('a chunk')}\r\n`
  })],
  ['a method that is none', (draw) => ({ method: draw.canary('the method').toUpperCase() })],
  ['a version that is none', (draw) => ({ target: `/ HTTP/${draw.canary('the version')}` })],
  ['a name with a space', (draw) => ({ fields: [`X ${draw.canary('a name')}: ${draw.canary('its value')}`] })],
  ['a field without a name', (draw) => ({ fields: [`: ${draw.canary('a value')}`] })],
  ['a control character', (draw) => ({ fields: [`X-Odd: ${draw.canary('X-Odd')}\x01`] })],
  ['another method for a key', (draw) => ({ method: 'PUT', target: `${ISSUED_KEYS_PATH}?${draw.canary('the query')}` })]
]

const REQUESTS: readonly Provocation[] = [
  ...MALFORMED.map(([what, make]) => asked('bad-request', what, { issuedKeys: ISSUED }, make)),
  asked('headers-too-large', 'a field', {}, (draw) => ({ fields: [`X-Large: ${draw.canary('X-Large').repeat(1_000)}`] })),
  asked('headers-too-large', 'a target', {}, (draw) => ({ target: `/${draw.canary('the path').repeat(1_000)}` })),
  asked('request-too-large', 'for a key', { issuedKeys: ISSUED }, (draw) => ({
    target: ISSUED_KEYS_PATH,
    body: draw.canary('the body').repeat(1_000)
  })),
  asked('scope-missing', 'for a key', { issuedKeys: ISSUED }, (draw) => ({
    target: `${ISSUED_KEYS_PATH}?${draw.canary('the query')}`,
    caller: null
  })),
  inbox('bad-request', 'no batch', { batch: 'split' }, keyed('cloudevents'), (draw) => ({
    ...json(draw, '{"id":"*"}'),
    fields: ['Content-Type: application/cloudevents-batch+json']
  })),
  inbox('bad-request', 'no event in a batch', { batch: 'split' }, keyed('json:/id'), (draw) => json(draw, '["*"]')),
  inbox(
    'bad-request',
    'no order',
    { order: { kind: 'json', pointer: readPointer('/order') ?? [], written: '/order' } },
    {},
    (draw) => ({ fields: [withKey(draw)], body: `{"order":{"${draw.canary('the order')}":1}}` })
  ),
  inbox('bad-request', 'another method for a message', {}, {}, (draw) => ({
    method: 'DELETE',
    target: `${MESSAGES_PATH}/${draw.canary('the id')}`
  })),
  inbox(
    'request-too-large',
    'more events than it ever holds',
    { batch: 'split', depthMax: 1 },
    keyed('json:/id'),
    (draw) => json(draw, '[{"id":"*"},{"id":"*"}]')
  ),
  ...SIGNATURES.map(([what, scheme, fields]) => inbox('signature-invalid', `${scheme}, ${what}`, {}, verify(scheme), (draw) => ({
    fields: [withKey(draw), ...fields(draw)]
  })))
]

export const PROVOCATIONS: readonly Provocation[] = [...KEYS, ...CALLERS, ...OTHERS, ...STATES, ...REQUESTS]
