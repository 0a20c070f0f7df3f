import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import fc from 'fast-check'
import type { IdempotencyPolicy, Route, RouteMatch, UpstreamPolicy } from '../../src/core/policy/policy.ts'
import { compileRoutes, hides } from '../../src/routing/match.ts'

const upstream: UpstreamPolicy = {
  name: 'u',
  origin: 'http://127.0.0.1:1',
  timeoutMs: 1,
  connectTimeoutMs: 1,
  keepAliveMs: 1,
  connectionsMax: 1,
  passThroughMax: 1,
  idleMs: 1,
  host: 'upstream',
  hops: { none: false, header: null },
  ca: null,
  requestHeaders: []
}
const guard: IdempotencyPolicy = {
  profile: 'api',
  key: {
    sources: [{ kind: 'header', name: 'idempotency-key' }],
    header: 'idempotency-key',
    required: false,
    syntax: 'lenient',
    store: 'hash',
    windowMs: 86_400_000
  },
  scope: { kind: 'credential', anonymous: false, cookies: 'refuse' },
  jwt: null,
  verify: null,
  drop: null,
  issued: null,
  probe: null,
  fingerprint: { of: [], body: 'none' },
  inFlight: { waitMs: 0, status: 409 },
  answerWithinMs: 1,
  unknown: 'hold',
  keep: { statuses: new Map(), body: true, requestBytesMax: 1, responseBytesMax: 1, dropHeaders: new Set(), keepHeaders: new Set() },
  retentionMs: 1,
  unknownRetentionMs: 1,
  leaseMs: 1,
  recordsPerCaller: null,
  recordsPerPeer: null,
  onMismatch: { action: 'reject', status: 422 },
  hops: { none: false, header: null },
  onRelease: { action: 'pass', status: 503 },
  onStoreDown: 'reject',
  forwardKey: true,
  retryHints: false,
  inbox: null,
  inboxFor: 'asked'
}
const when = (path: string, over: Partial<RouteMatch> = {}): RouteMatch => ({ path, methods: [], host: null, exact: false, ...over })
const guarded = (path: string, over: Partial<RouteMatch> = {}): Route => ({
  name: `guard ${path}`,
  match: when(path, over),
  upstream,
  idempotency: guard
})
const passing = (path: string, over: Partial<RouteMatch> = {}): Route => ({
  name: `pass ${path}`,
  match: when(path, over),
  upstream,
  idempotency: null
})

const meets = (routes: Route[], target: string, method = 'POST', host: string | null = 'h', overriding: readonly string[] = []) => {
  const found = compileRoutes(routes).match(method, target, host, overriding)
  return found.kind === 'route' ? found.route.name : found.kind
}
const charges = [
  guarded('/v1/charges', { methods: ['POST'] }),
  guarded('/v1/orders/:id/capture', { methods: ['POST'] }),
  guarded('/pay/*'),
  passing('/*')
]

test('first match wins, by method, path and host', () => {
  const routes = [
    guarded('/a', { methods: ['POST', 'PATCH'] }),
    passing('/a'),
    guarded('/b', { host: 'api.example' }),
    passing('/b/:id'),
    passing('/b')
  ]
  assert.equal(meets(routes, '/a'), 'guard /a')
  assert.equal(meets(routes, '/a?x=/../y%zz', 'PATCH'), 'guard /a')
  assert.equal(meets(routes, '/a', 'GET'), 'pass /a')
  for (const host of ['api.example', 'API.example:8080', 'api.example.']) assert.equal(meets(routes, '/b', 'POST', host), 'guard /b', host)
  for (const host of ['other', 'xapi.example']) assert.equal(meets(routes, '/b', 'POST', host), 'pass /b', host)
  assert.equal(meets(routes, '/b/1'), 'pass /b/:id')
  for (const target of ['/', '/c', '/b/1/2', '/a/b']) assert.equal(meets(routes, target), 'none', target)
})

test('a parameter is one segment, a star is everything at and under its prefix', () => {
  assert.equal(meets(charges, '/v1/orders/7/capture'), 'guard /v1/orders/:id/capture')
  assert.equal(meets(charges, '/v1/orders//capture'), 'pass /*')
  for (const target of ['/pay', '/pay/', '/pay/a', '/pay/a/b']) assert.equal(meets(charges, target), 'guard /pay/*', target)
  for (const target of ['/payment', '/v1/charges/x', '/v1/chargesx', '/v1/charge', '/x/v1/charges']) {
    assert.equal(meets(charges, target), 'pass /*', target)
  }
})

test('an exact route is compared byte for byte', () => {
  const routes = [guarded('/v1/charges', { exact: true }), guarded('/x/*', { exact: true }), passing('/*')]
  assert.equal(meets(routes, '/v1/charges?q'), 'guard /v1/charges')
  for (const target of ['/V1/charges', '/v1/charges/', '//v1/charges', '/v1/%63harges', '/v1/charges;x', '/x', '/X/a']) {
    assert.equal(meets(routes, target), 'pass /*', target)
  }
  assert.equal(meets(routes, '/x/'), 'guard /x/*')
})

test('the variants that the contract names are guarded', () => {
  for (const target of [
    '/V1/charges/', '/v1/%63harges', '/v1//charges', '//v1/charges', '/v1/charges//', '/v1/CHARGES?a=b',
    '/%76%31/%43harges'
  ]) {
    assert.equal(meets(charges, target), 'guard /v1/charges', target)
  }
})

test('the variants that only some servers take for the path are guarded', () => {
  const targets = ['/v1%2fcharges', '/v1%2Fcharges', '/v1\\charges', '/v1%5ccharges', '/v1/charges;jsessionid=1', '/v1;a/charges;b=c',
    '/v1/charges%3bx', '/v1/charges;x%2fy', '/v1/charges;%2f', '/v1/%2563harges', '/v1%252fcharges',
    '/v1/charges#x', '/v1/charges%23x', '/v1/charges%3fx', '//other/v1/charges', '/\\other/v1/charges',
    '/%2fother/v1/charges', 'http://h/v1/charges', 'HTTP://H:80/V1/charges/?a',
    '/(S(x))/v1/charges', '/v1/(A(a)F(b))/charges', '/v1/charges+', '/%20v1/charges', '/v1/charges%e2%80%a8',
    '/v1/charges%c2%85', '/v1/charges::$DATA', '//h:1/v1/charges', '/\\x@h/v1/charges']
  for (const target of targets) assert.equal(meets(charges, target), 'guard /v1/charges', target)
})

test('letters beyond ASCII are compared without case, however they are escaped', () => {
  const routes = [guarded('/tasks/ä'), guarded('/%C3%B6'), passing('/*')]
  for (const target of ['/tasks/%C3%A4', '/tasks/%c3%84', '/Tasks/\xc3\xa4', '/ta%C5%BF%E2%84%AAs/%c3%a4']) {
    assert.equal(meets(routes, target), 'guard /tasks/ä', target)
  }
  assert.equal(meets(routes, '/%c3%96'), 'guard /%C3%B6')
  assert.equal(meets(routes, '/tasks/%C3%A5'), 'pass /*')
})

test('no spelling of a guarded path ever falls through', () => {
  const spelling = fc.constantFrom('/v1/charges', '/v1/orders/7/capture', '/pay', '/pay/in').chain((path) =>
    fc.tuple(fc.constant(path), fc.array(fc.nat(), { minLength: 200, maxLength: 200 })))
  fc.assert(fc.property(spelling, ([path, choices]) => {
    let at = 0
    const choose = <T> (...options: T[]): T => options[(choices[at++] ?? 0) % options.length] as T
    const escape = (char: string) => `%${char.charCodeAt(0).toString(16)}`
    const letter = (char: string): string =>
      choose(char, char, char.toUpperCase(), escape(char), escape(char.toUpperCase()), escape(char).toUpperCase())
    const slash = () => choose('/', '/', '//', '///', '%2f', '%2F', '\\', '%5c', ';a=b/', '%252f')
    const spelled = `/${choose('', '/')}` +
      path.slice(1).split('').map((char) => char === '/' ? slash() : letter(char)).join('') +
      choose('', '/', '//', ';x', '?q', '#f', '%2f')
    const found = meets(charges, spelled)
    assert.ok(found.startsWith('guard ') || found === 'refused', `${spelled} -> ${found}`)
  }), { numRuns: 3000 })
})

test('a request that nobody can misread passes', () => {
  for (const target of [
    '/', '/files/%E4%BD%A0.txt', '/files/a%20b', '/a;b/c', '/.well-known/x', '/a/...', '/a/..b', '/a%2fb',
    `/${'a%20'.repeat(2000)}`
  ]) {
    assert.equal(meets(charges, target), 'pass /*', target.slice(0, 30))
  }
})

test('dot segments are refused, however they are spelled', () => {
  for (const target of [
    '/..', '/.', '/a/../v1/charges', '/a/./b', '/a/%2e%2e/b', '/a/.%2E', '/a/..;x/b', '/a/%2e%2e%2fb', '/a\\..\\b',
    '/a/..%5cb', '/a/%252e%252e/b', '/v1/charges/..', '/a#/../b', 'http://h/../x'
  ]) {
    assert.equal(meets(charges, target), 'refused', target)
  }
})

test('targets that cannot be compared are refused', () => {
  for (const target of [
    '', 'v1/charges', '/a%', '/a%zz', '/a%2', '/a b', '/a\tb', '/a\0', '/a%00', '/a%2500', 'ftp://h/a', 'http://',
    'http:///a', 'http://u@h/a', 'http://other/v1/charges', '*', `/%${'25'.repeat(100)}41`,
    `/${'a;%25\\%23/'.repeat(1600)}`
  ]) {
    assert.equal(meets(charges, target), 'refused', target.slice(0, 30))
  }
})

test('a target with another host than Host is refused, and so is one with another port: which of the two counts is for each hop to say', () => {
  for (const [target, host] of [
    ['http://other/v1/charges', 'h'],
    ['http://h:8443/v1/charges', 'h'],
    ['http://h/v1/charges', 'h:8443'],
    ['http://h:8080/v1/charges', 'h:8443']
  ] as const) {
    assert.equal(meets(charges, target, 'POST', host), 'refused', `${target} ${host}`)
  }
  for (const [target, host] of [
    ['http://h/v1/charges', 'h'],
    ['http://H.:80/v1/charges', 'h'],
    ['http://h/v1/charges', 'h:443'],
    ['http://h:8443/v1/charges', 'H.:8443'],
    ['http://h:8443/v1/charges', null]
  ] as const) {
    assert.equal(meets(charges, target, 'POST', host), 'guard /v1/charges', `${target} ${host}`)
  }
})

test('OPTIONS * meets no route', () => {
  assert.equal(meets(charges, '*', 'OPTIONS'), 'none')
})

test('an exception before a guarded route holds only for requests that every server reads as the exception', () => {
  const routes = [passing('/v1/preview/*'), guarded('/v1/*'), passing('/*')]
  assert.equal(meets(routes, '/v1/preview/x'), 'pass /v1/preview/*')
  assert.equal(meets(routes, '/v1/Preview/'), 'pass /v1/preview/*')
  assert.equal(meets(routes, '//x/v1/preview'), 'pass /*')
  assert.equal(meets(routes, '//preview/v1/charge'), 'guard /v1/*')
  assert.equal(meets([passing('/a;b', { exact: true }), guarded('/a')], '/a;b'), 'pass /a;b')
  assert.equal(meets([passing('/:x', { exact: true }), guarded('/a')], '/a;b'), 'guard /a')
})

test('a request whose method is overridden is guarded under either reading', () => {
  const routes = [
    passing('/a', { methods: ['GET'] }),
    guarded('/a', { methods: ['PATCH'] }),
    passing('/a', { methods: ['POST'] }),
    guarded('/b', { methods: ['POST'] }),
    passing('/b'),
    passing('/c', { methods: ['PATCH'] }),
    guarded('/*', { methods: ['DELETE'] })
  ]
  const by = (method: string, target: string, ...overriding: string[]) => meets(routes, target, method, 'h', overriding)
  assert.equal(by('POST', '/a'), 'pass /a')
  assert.equal(by('POST', '/a', 'PATCH'), 'guard /a')
  assert.equal(by('GET', '/a', 'PATCH'), 'guard /a')
  assert.equal(by('PUT', '/a', 'PATCH'), 'guard /a')
  assert.equal(by('POST', '/a', 'garbage', 'PUT', 'PATCH'), 'guard /a')
  assert.equal(by('POST', '/A/', 'PATCH'), 'guard /a')
  assert.equal(by('POST', '/a', 'GARBAGE'), 'pass /a')
  assert.equal(by('POST', '/a', 'GET'), 'pass /a')
  // What is guarded by its own method stays so.
  for (const other of ['GET', 'PATCH', 'GARBAGE', '']) assert.equal(by('POST', '/b', other), 'guard /b', other)
  // An override opens nothing.
  assert.equal(by('PUT', '/c'), 'none')
  assert.equal(by('PUT', '/c', 'PATCH'), 'none')
  assert.equal(by('PUT', '/c', 'DELETE'), 'guard /*')
  // Of two that guard, the first.
  assert.equal(by('POST', '/b', 'DELETE'), 'guard /b')
  assert.equal(
    meets([guarded('/b', { methods: ['DELETE'], exact: true }), guarded('/*', { methods: ['POST'] })], '/b', 'POST', 'h', ['DELETE']),
    'guard /b'
  )
})

test('no override ever takes a guard away', () => {
  const some = fc.record({ path: fc.constantFrom('/a', '/*', '/b'), methods: fc.subarray(['POST', 'PATCH', 'GET']), guards: fc.boolean() })
  fc.assert(
    fc.property(
      fc.array(some, { maxLength: 5 }),
      fc.constantFrom('/a', '/b', '/a;x'),
      fc.constantFrom('POST', 'PATCH', 'GET', 'PUT'),
      fc.array(
        fc.constantFrom('POST', 'PATCH', 'GET', 'PUT', 'X'),
        { minLength: 1, maxLength: 3 }
      ),
      (those, target, method, overriding) => {
        const routes = those.map(({ path, methods, guards }) => guards ? guarded(path, { methods }) : passing(path, { methods }))
        const [alone, overridden] = [meets(routes, target, method), meets(routes, target, method, 'h', overriding)]
        const guards = [method, ...overriding].some((each) => meets(routes, target, each).startsWith('guard'))
        assert.equal(overridden.startsWith('guard'), guards)
        if (!guards) assert.equal(overridden, alone)
      }
    ),
    { numRuns: 2000, seed: 1 }
  )
})

const defaulted = (path: string, over: Partial<RouteMatch> = {}): Route => ({
  ...guarded(path, { methods: ['POST', 'PATCH'], ...over }),
  restPasses: true
})
const way = (routes: Route[], target: string, method: string, host: string | null = 'h', overriding: readonly string[] = []) => {
  const found = compileRoutes(routes).match(method, target, host, overriding)
  return found.kind === 'route' ? `${found.route.idempotency === null ? 'passes' : 'guards'} ${found.route.match.path}` : found.kind
}

test('what a guarded route whose methods nobody wrote leaves of its path passes through, behind all that is written', () => {
  const routes = [defaulted('/v1/*'), passing('/v1/health', { methods: ['GET'] }), guarded('/v1/charges', { methods: ['PUT'] })]
  for (const method of ['POST', 'PATCH']) assert.equal(way(routes, '/v1/charges', method), 'guards /v1/*', method)
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'DELETE', 'PROPFIND']) {
    assert.equal(way(routes, '/v1/charges', method), 'passes /v1/*', method)
  }
  assert.equal(way(routes, '/v1/health', 'GET'), 'passes /v1/health')
  assert.deepEqual(
    compileRoutes(routes).match('TRACE', '/v1/things', 'h'),
    { kind: 'none' },
    'it would show what the gateway adds to a request'
  )
  assert.equal(way([...routes, passing('/v1/*')], '/v1/things', 'TRACE'), 'passes /v1/*')
  for (const target of ['/v1/charges', '/V1/charges/', '/v1%2fcharges', '/v1/charges;x']) {
    assert.equal(way(routes, target, 'PUT'), 'guards /v1/charges', target)
  }
  assert.equal(way(routes, '/elsewhere', 'GET'), 'none')
  const hosted = [defaulted('/a', { host: 'shop.example' })]
  assert.deepEqual(['shop.example', 'other', null].map((host) => way(hosted, '/a', 'GET', host)), ['passes /a', 'none', 'none'])
  assert.equal(way([guarded('/a', { methods: ['POST'] })], '/a', 'GET'), 'none')
})

test('what passes by implication takes no guard away: not by a spelling that nobody wrote an exception for, and not by an override', () => {
  const routes = [defaulted('/a;b', { exact: true }), guarded('/a', { methods: ['PUT'] })]
  assert.equal(way(routes, '/a;b', 'PUT'), 'guards /a')
  assert.equal(way(routes, '/a;b', 'DELETE'), 'passes /a;b')
  for (const method of ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']) {
    for (const other of ['POST', 'PATCH']) {
      assert.equal(way([defaulted('/a')], '/a', method, 'h', [other]), 'guards /a', `${method} ${other}`)
    }
  }
  for (const other of ['GET', 'PUT', 'GARBAGE']) assert.equal(way([defaulted('/a')], '/a', 'POST', 'h', [other]), 'guards /a', other)
  assert.equal(way([defaulted('/a')], '/a', 'PUT', 'h', ['DELETE']), 'passes /a')
})

test('a path whose guarded route names its methods says which, and no other path does', () => {
  const routes = [
    guarded('/a', { methods: ['POST'] }),
    guarded('/a/*', { methods: ['PATCH'] }),
    guarded('/b', { host: 'api.example', methods: ['POST'] }),
    passing('/c', { methods: ['GET'] })
  ]
  const taken = (target: string, host = 'h') => compileRoutes(routes).match('PUT', target, host)
  assert.deepEqual(taken('/a'), { kind: 'none', taken: ['POST', 'PATCH'] })
  assert.deepEqual(taken('/a/1'), { kind: 'none', taken: ['PATCH'] })
  assert.deepEqual(taken('/b', 'api.example'), { kind: 'none', taken: ['POST'] })
  for (const target of ['/b', '/c', '/d', '*']) assert.equal('taken' in taken(target), false, target)
})

test('a preflight meets the route of the request that it announces, unless a route names OPTIONS', () => {
  const asked = (routes: Route[], announced: string, target = '/a') => {
    const found = compileRoutes(routes).preflight(announced, target, 'h')
    return found.kind === 'route' ? found.route.name : found.kind
  }
  const routes = [guarded('/a', { methods: ['POST'] }), passing('/a', { methods: ['GET'] }), passing('/*', { methods: ['DELETE'] })]
  assert.deepEqual(
    ['POST', 'GET', 'DELETE', 'PUT', 'GARBAGE'].map((method) => asked(routes, method)),
    ['guard /a', 'pass /a', 'pass /*', 'none', 'none']
  )
  // As the request that follows: in every spelling of it.
  assert.equal(asked(routes, 'POST', '/A%2f'), 'guard /a')
  assert.equal(asked([...routes, passing('/:any', { methods: ['OPTIONS'] })], 'POST'), 'pass /:any')
  assert.equal(asked([...routes, passing('/:any')], 'PUT'), 'pass /:any')
  assert.equal(asked([defaulted('/a')], 'PUT'), 'guard /a')
  assert.equal(asked(routes, 'POST', '*'), 'none')
  assert.equal(asked(routes, 'POST', '/a/../b'), 'refused')
})

test('however many methods somebody sends, matching stays cheap', () => {
  const matcher = compileRoutes(charges)
  const started = process.cpuUsage()
  matcher.match('POST', `/${'%2f'.repeat(5000)}`, null, Array.from({ length: 8_000 }, (_, index) => `M${index}`))
  const { user } = process.cpuUsage(started)
  assert.ok(user < 500_000, `${user} µs`)
})

test('matching the worst target stays cheap', () => {
  const matcher = compileRoutes(charges)
  const worst = [
    `/${'a/'.repeat(8000)}`, `/${';'.repeat(16000)}`, `/${'%2f'.repeat(5000)}`, `/${'%25'.repeat(5000)}`,
    `/${'\\;%3b'.repeat(3000)}`, '/'.repeat(16000)
  ]
  const started = process.cpuUsage()
  for (const target of worst) matcher.match('POST', target, null)
  const { user } = process.cpuUsage(started)
  assert.ok(user < 500_000, `${user} µs`)
})

test('a long target that no route takes stays cheap, however many routes guard', () => {
  const matcher = compileRoutes(Array.from({ length: 1_000 }, (_, index) => guarded(`/a${index}`, { methods: ['POST'] })))
  const started = process.cpuUsage()
  for (const target of [`/${'b'.repeat(16000)}`, `/${'%62'.repeat(5000)}`, `/${'a/'.repeat(8000)}`]) {
    assert.equal(matcher.match('GET', target, null).kind, 'none')
  }
  const { user } = process.cpuUsage(started)
  assert.ok(user < 500_000, `${user} µs`)
})

test('a route hides another exactly when it takes everything from it', () => {
  const yes: Array<[RouteMatch, RouteMatch]> = [
    [when('/*'), when('/a')], [when('/*'), when('/')], [when('/a/*'), when('/a')], [when('/a/*'), when('/A//b/:c/*')],
    [when('/a/:x'), when('/a/b')], [when('/a/:x'), when('/a/:y')], [when('/A/'), when('/%61')],
    [when('/a'), when('/a', { methods: ['POST'] })],
    [when('/a', { methods: ['POST', 'PUT'] }), when('/a', { methods: ['PUT'] })],
    [when('/a'), when('/a', { host: 'h' })], [when('/a', { host: 'h' }), when('/a', { host: 'h' })],
    [when('/a'), when('/A', { exact: true })], [when('/*', { exact: true }), when('/a')],
    [when('/a', { exact: true }), when('/a', { exact: true })],
    [when('/a/*', { exact: true }), when('/a/b/*', { exact: true })]
  ]
  const no: Array<[RouteMatch, RouteMatch]> = [
    [when('/a'), when('/*')], [when('/a'), when('/a/*')], [when('/a'), when('/a/b')], [when('/a/b'), when('/a/:x')],
    [when('/a/:x'), when('/a/*')], [when('/a/:x/*'), when('/a/*')], [when('/a/:x'), when('/a')],
    [when('/a', { methods: ['POST'] }), when('/a')],
    [when('/a', { methods: ['POST'] }), when('/a', { methods: ['POST', 'PUT'] })],
    [when('/a', { host: 'h' }), when('/a')], [when('/a', { host: 'h' }), when('/a', { host: 'i' })],
    [when('/a', { exact: true }), when('/a')], [when('/a/*', { exact: true }), when('/a/*')],
    [when('/a/*', { exact: true }), when('/a', { exact: true })],
    [when('/a', { exact: true }), when('/A', { exact: true })]
  ]
  for (const [earlier, later] of yes) assert.ok(hides(earlier, later), JSON.stringify([earlier, later]))
  for (const [earlier, later] of no) assert.ok(!hides(earlier, later), JSON.stringify([earlier, later]))
})

test('a hidden route is never met', () => {
  const path = fc.array(fc.constantFrom('/a', '/B', '/:x', '/b'), { maxLength: 3 }).chain((parts) => fc.constantFrom('', '/*').map((end) =>
    parts.join('') + end || '/'))
  const some = fc.record({
    path,
    exact: fc.boolean(),
    methods: fc.constantFrom([], ['POST'], ['POST', 'PUT']),
    host: fc.constantFrom(null, 'h')
  })
  const target = fc.array(fc.constantFrom('/a', '/b', '/A', '/', '/c', '%61', '/%62'), { minLength: 1, maxLength: 4 }).map((parts) =>
    `/${parts.join('')}`.replace(/^\/\//, '/'))
  fc.assert(
    fc.property(some, some, target, fc.constantFrom(
      'POST',
      'PUT',
      'GET'
    ), fc.constantFrom('h', 'i'), (earlier, later, asked, method, host) => {
      fc.pre(hides(earlier, later))
      const alone = compileRoutes([passing('/', earlier)]).match(method, asked, host)
      const behind = compileRoutes([passing('/', later)]).match(method, asked, host)
      assert.ok(behind.kind !== 'route' || alone.kind === 'route')
    }),
    { numRuns: 1000 }
  )
})

test('however many slashes stand in front, and whichever, what follows may be a host', () => {
  for (const before of ['//x', '///x', '////x', '/////x', '/\\/x', '\\\\x', '//x@y', '/%2f/x']) {
    if (before.startsWith('/')) assert.equal(meets(charges, `${before}/v1/charges`), 'guard /v1/charges', before)
  }
  assert.equal(new URL('///x/v1/charges', 'http://h').pathname, '/v1/charges')
})

test('what Windows has beside a file, and a directory, is read as the file', () => {
  for (const behind of ['::$DATA', ':$i30:$INDEX_ALLOCATION', '::$INDEX_ALLOCATION', '%3a%3a$data']) {
    assert.equal(meets(charges, `/v1/charges${behind}`), 'guard /v1/charges', behind)
  }
  assert.equal(meets(charges, '/v1::$INDEX_ALLOCATION/charges'), 'guard /v1/charges')
  assert.equal(meets(charges, '/v1/tasks:run'), 'pass /*')
})

test('a control character is refused in UTF-8 as well, but for the one that is read as a line end', () => {
  for (const control of ['%c2%80', '%c2%93', '%c2%9f']) assert.equal(meets(charges, `/v1/charges${control}`), 'refused', control)
  assert.equal(meets(charges, '/v1/charges%c2%85'), 'guard /v1/charges')
  assert.equal(meets(charges, '/caf%c3%a9'), 'pass /*')
})

test('an IPv4 address that is written in IPv6 is the same host', () => {
  const routes = [guarded('/a', { host: '127.0.0.1' }), passing('/a')]
  for (const host of ['127.0.0.1', '[::ffff:127.0.0.1]', '[::FFFF:7f00:1]:8080', '[0:0:0:0:0:ffff:127.0.0.1]', '0x7f.1']) {
    assert.equal(meets(routes, '/a', 'POST', host), 'guard /a', host)
  }
  assert.equal(meets(routes, '/a', 'POST', '[::1]'), 'pass /a')
})

// One request with a path of 15 KiB of dots stopped everybody for a quarter of a second: each dot walked all that were behind it.
test('a long run of what can be read in two ways is walked once', () => {
  const runs = [
    '.', '+', ' ', '. ', ';', ':', '/(', '/((', '(a', ':$', '\\', '#', '?', '%', '%25', '\x80', '\xe2\x80\x8b', '\xc1',
    '.a', '..a', '/.a', '/+', ':a:$', 'a.'
  ]
  const ends = [['/', 'a'], ['/a', ''], ['/', '/a'], ['/a.', ':$data'], ['/(a(', ')/']]
  // Four times as long as a request can be, five times over: half a second, and minutes of what grows with its square.
  // Nothing else could interrupt it.
  const program = `const { readingsOf } = await import(${JSON.stringify(new URL('../../src/routing/target.ts', import.meta.url).href)})
for (let round = 0; round < 5; round++) for (const run of ${JSON.stringify(runs)}) for (const [before, after] of ${JSON.stringify(ends)}) readingsOf(before + run.repeat(60 * 1024 / run.length) + after)`
  const { status, stderr } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { timeout: 30_000, encoding: 'utf8' })
  assert.equal(status, 0, stderr)
})
