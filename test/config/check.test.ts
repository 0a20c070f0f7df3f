import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ConfigWorld, fileWith } from './world.ts'

/** What is said of a file with this policy; `at`: the paths only. */
function said (world: ConfigWorld, policy: string): string[] {
  return world.complaints(fileWith({ policy })).map((complaint) => complaint.replace('routes[0].idempotency.', ''))
}

function complaintsOf (world: ConfigWorld, policy: string): string {
  return said(world, policy).join()
}

test('a scope in which nobody can be told apart is refused, unless it is called public', (t) => {
  const world = new ConfigWorld(t)
  assert.match(said(world, '{ scope: [] }').join(), /^scope: is empty, so all callers would share/)
  assert.match(said(world, '{ scope: ["const:a", "const:b"] }').join(), /^scope: does not distinguish callers/)
  const policy = world.load(fileWith({ policy: '{ scope: public }' })).config.routes[0]?.idempotency
  assert.deepEqual(policy?.scope, { kind: 'credential', anonymous: true, cookies: 'ignore' })
})

test('a scope of parts is read with header names in lower case', (t) => {
  const world = new ConfigWorld(t)
  world.write('jwks.json', '{"keys":[]}')
  const policy = world.load(fileWith({
    policy: '{ scope: ["header:X-Tenant", "cookie:Sid", "jwt:sub", "const:v1"], jwt: { jwks: jwks.json, issuer: me } }'
  })).config.routes[0]?.idempotency
  assert.deepEqual(policy?.scope, {
    kind: 'parts',
    parts: [
      { kind: 'header', name: 'x-tenant' },
      { kind: 'cookie', name: 'Sid' },
      { kind: 'jwt', claim: 'sub' },
      { kind: 'const', value: 'v1' }
    ]
  })
  assert.deepEqual(policy?.jwt, { jwks: `${world.directory}/jwks.json`, issuer: 'me', audience: null })
})

test('parts may be absent, and credential, public, shared and host may stand beside others', (t) => {
  const world = new ConfigWorld(t)
  const scopeOf = (scope: string) => world.load(fileWith({
    policy: `{ scope: ${scope}${scope.includes('jwt') ? ', jwt: { jwks: "https://issuer/jwks" }' : ''} }`
  })).config.routes[0]?.idempotency?.scope
  const [credential, everyone] = [
    { kind: 'credential', anonymous: false, cookies: 'refuse' },
    { kind: 'credential', anonymous: true, cookies: 'ignore' }
  ]
  assert.deepEqual(scopeOf('[credential, "header?:X-My-Tenant"]'), {
    kind: 'parts',
    parts: [credential, { kind: 'header', name: 'x-my-tenant', optional: true }]
  })
  assert.deepEqual(scopeOf('[public, "cookie?:Sid", host]'), {
    kind: 'parts',
    parts: [everyone, { kind: 'cookie', name: 'Sid', optional: true }, { kind: 'host' }]
  })
  assert.deepEqual(scopeOf('[shared, host]'), { kind: 'parts', parts: [{ kind: 'const', value: 'shared' }, { kind: 'host' }] })
  assert.deepEqual(scopeOf('["jwt?:sub"]'), { kind: 'parts', parts: [{ kind: 'jwt', claim: 'sub', optional: true }] })
  assert.deepEqual([scopeOf('[credential]'), scopeOf('[public]')], [credential, everyone])
  assert.deepEqual(scopeOf('[shared]'), scopeOf('shared'))
  for (const scope of ['[host]', 'host', '[host, "const:a"]']) {
    assert.match(complaintsOf(world, `{ scope: ${scope} }`), /^scope: does not distinguish callers/, scope)
  }
  assert.match(complaintsOf(world, '{ scope: [credential, public] }'), /^scope: has credential or public more than once/)
  assert.match(complaintsOf(world, '{ scope: [credential, "const?:a"] }'), /^scope: const\?:a: a const part is never absent/)
  assert.match(complaintsOf(world, '{ scope: ["jwt?:sub"] }'), /^jwt: is missing/)
})

test('a scope that is no scope is refused', (t) => {
  const world = new ConfigWorld(t)
  for (const scope of [
    'credentials', '["header:"]', '["header:a b"]', '["cookie:"]', '["jwt:"]', '["header?:"]', '["header??:x"]',
    '["credential?"]', '["ip:x"]', '""'
  ]) {
    assert.ok(said(world, `{ scope: ${scope} }`).some((complaint) => complaint.startsWith('scope: ')), scope)
  }
})

test('a token is a caller only where it can be verified', (t) => {
  const world = new ConfigWorld(t)
  world.write('broken.json', '{')
  world.write('list.json', '[]')
  assert.match(said(world, '{ scope: "jwt:sub" }').join(), /^jwt: is missing/)
  assert.match(said(world, '{ scope: "jwt:sub", jwt: { jwks: nowhere.json } }').join(), /^jwt\.jwks: .*cannot be read \(ENOENT\)/)
  assert.match(said(world, '{ scope: "jwt:sub", jwt: { jwks: broken.json } }').join(), /is no JSON/)
  assert.match(said(world, '{ scope: "jwt:sub", jwt: { jwks: list.json } }').join(), /is no JWK set/)
  assert.match(said(world, '{ scope: "jwt:sub", jwt: {} }').join(), /^jwt\.jwks: is missing/)
  assert.match(said(world, '{ jwt: { jwks: "https://issuer/jwks" } }').join(), /^jwt: is not used/)
})

test('the key comes in a header of its own', (t) => {
  const world = new ConfigWorld(t)
  for (const name of ['Authorization', 'Host', 'Content-Type', 'Cookie', 'Onceway-Key', 'Idempotency-Status', 'Connection']) {
    assert.match(said(world, `{ key: { from: "header:${name}" } }`).join(), /^key\.from: cannot be/, name)
  }
  assert.match(said(world, '{ key: { from: "header:a b" } }').join(), /^key\.from: header:a b names no header/)
  assert.equal(
    world.load(fileWith({ policy: '{ key: { from: ["header:X-Event-Id"] } }' })).config.routes[0]?.idempotency?.key.header,
    'x-event-id'
  )
  for (const [from, why] of [
    ['json:id', /is no JSON pointer/],
    ['template:{path:id}', /names \{path:id\}, which match\.path does not have/],
    ['["hash:body", "query:id"]', /after hash:body/]
  ] as const) {
    const written = from.startsWith('[') ? from : JSON.stringify(from)
    assert.match(complaintsOf(world, `{ key: { from: ${written} } }`), why, from)
  }
})

test('what decides is a field that the upstream gets as it came', (t) => {
  const world = new ConfigWorld(t)
  for (const name of ['content_type', 'Onceway_Key', 'x_forwarded_for']) {
    assert.match(said(world, `{ key: { from: "header:${name}" } }`).join(), /^key\.from: cannot be/, name)
  }
  for (const name of ['TE', 'Connection', 'Accept-Encoding', 'content_length', 'X_Forwarded_User', 'Onceway-Key']) {
    assert.deepEqual(
      said(world, `{ scope: ["header:${name}"] }`),
      [`scope: cannot have header:${name.toLowerCase()}: the upstream does not get that field unchanged`],
      name
    )
    assert.match(said(world, `{ key: { from: "template:{header:${name}}-{query:id}" } }`).join(), /^key\.from: cannot have /, name)
  }
  for (const name of ['X_User', 'X-Forwarded-User', 'Proxy-Authorization', 'Host']) {
    world.load(fileWith({ policy: `{ scope: ["header:${name}"] }` }))
  }
})

test('times that contradict each other are refused', (t) => {
  const world = new ConfigWorld(t)
  assert.match(said(world, '{ retention: 29s }').join(), /^retention: must be at least two leases \(2 x 15s\)/)
  world.load(fileWith({ policy: '{ retention: 30s }' }))
  assert.match(said(world, '{ unknownRetention: 314s }').join(), /^unknownRetention: must be at least the upstream's timeout and a lease/)
  world.load(fileWith({ policy: '{ unknownRetention: 315s }' }))
  assert.match(said(world, '{ inFlight: { wait: 61s } }').join(), /^inFlight\.wait: is longer than answerWithin/)
  assert.match(said(world, '{ answerWithin: 0s }').join(), /^answerWithin: "0s" must be between/)
  assert.match(said(world, '{ lease: 999ms }').join(), /^lease: "999ms" must be between 1s and 10m/)
})

test('an answerWithin below the default wait is right: duplicates then wait no longer than that', (t) => {
  const world = new ConfigWorld(t)
  for (const profile of ['api', 'relay']) {
    const read = (policy: string) =>
      world.load(fileWith({ policy: `{ profile: ${profile}, ${policy} }` })).config.routes[0]?.idempotency?.inFlight.waitMs
    assert.equal(read('answerWithin: 2s'), 2_000, profile)
    assert.equal(read('answerWithin: 2s, inFlight: { status: 425 }'), 2_000, profile)
    assert.equal(read('answerWithin: 2s, inFlight: { wait: 500ms }'), 500, profile)
    assert.equal(read('answerWithin: 4s'), 3_000, profile)
  }
  // What the file says itself is still held to it.
  assert.match(said(world, '{ answerWithin: 2s, inFlight: { wait: 3s } }').join(), /^inFlight\.wait: is longer than answerWithin/)
  assert.match(said(world, '{ answerWithin: 2s, inFlight: 7 }').join(), /^inFlight: /)
})

test('an execution that could never fit into memory is refused', (t) => {
  const complaints = new ConfigWorld(t).complaints(fileWith({ rest: 'limits: { bufferedBytes: 8MiB }' }))
  assert.deepEqual(complaints, [
    'routes[0].idempotency.keep.requestBytesMax: and responseBytesMax together are more than limits.bufferedBytes (8MiB)'
  ])
})

test('a safe method cannot be guarded, and a guarded route names its methods', (t) => {
  const world = new ConfigWorld(t)
  for (const method of ['GET', 'head', 'OPTIONS', 'TRACE']) {
    assert.match(world.complaints(fileWith({ match: `{ path: /x, methods: [POST, ${method}] }` })).join(), /cannot be guarded/, method)
  }
  assert.match(world.complaints(fileWith({ match: '{ path: /x, methods: [] }' })).join(), /is empty/)
  assert.deepEqual(world.load(fileWith({ match: '{ path: /x, methods: [put], host: API.Example }' })).config.routes[0]?.match, {
    path: '/x',
    methods: ['PUT'],
    host: 'api.example',
    exact: false
  })
})

test('a path that could not match as it is written is refused', (t) => {
  const world = new ConfigWorld(t)
  for (const path of ['/a?b', '/a#b', '/a b', '/a/../b', '/%2e/b', '/*/a', '/a*', '/a/:', '/a/:1', 'a']) {
    assert.match(world.complaints(fileWith({ match: `{ path: "${path}" }` })).join(), /^routes\[0\]\.match\.path: /, path)
  }
})

test('a route that an earlier one hides is refused', (t) => {
  const world = new ConfigWorld(t)
  const hidden = (earlier: string, later: string) => {
    const text = fileWith({ match: later }).replace('routes:\n', `routes:\n  - { match: ${earlier}, upstream: payments }\n`)
    return world.complaints(text).join()
  }
  assert.match(hidden('{ path: "/*" }', '{ path: /v1/charges }'), /^routes\[1\]\.match: is never reached: routes\[0\] takes/)
  assert.match(hidden('{ path: "/V1/:x/" }', '{ path: /v1/charges }'), /is never reached/)
  world.load(
    fileWith({ match: '{ path: "/*" }' }).replace('routes:\n', 'routes:\n  - { match: { path: /v1/charges }, upstream: payments }\n')
  )
})

test('a guarded route has a name of its own; one that passes through needs none', (t) => {
  const world = new ConfigWorld(t)
  const twice = `${fileWith()}  - { name: charges, match: { path: /x }, upstream: payments }\n`
  assert.deepEqual(world.complaints(twice), ['routes[1].name: is the name of routes[0] too'])
  assert.match(world.complaints(fileWith().replace('name: charges\n    match', 'match')).join(), /^routes\[0\]\.name: is missing/)
  world.load(`${fileWith()}  - { match: { path: /x }, upstream: payments }\n`)
})

test('an upstream is an origin and nothing behind it', (t) => {
  const world = new ConfigWorld(t)
  const upstream = (entry: string) => world.complaints(fileWith().replace('{ url: "http://127.0.0.1:3000" }', entry)).join()
  for (const url of ['http://h/x', 'http://h?x', 'http://h/#', 'http://u:p@h', 'ftp://h', 'unix:/x', 'h:80', 'nonsense']) {
    assert.match(upstream(`{ url: "${url}" }`), /^upstreams\.payments\.url: /, url)
  }
  assert.equal(
    world.load(fileWith().replace('"http://127.0.0.1:3000"', '"https://H.Example:443/"')).config.upstreams[0]?.origin,
    'https://h.example'
  )
})

test('a static header cannot take the place of one that is the gateway\'s or HTTP\'s', (t) => {
  const world = new ConfigWorld(t)
  const upstream = (headers: string) => fileWith().replace('3000" }', `3000", requestHeaders: { ${headers} } }`)
  for (const name of [
    'Host', 'content-length', 'Transfer-Encoding', 'Connection', 'Onceway-Key', 'Idempotency-Attempt',
    'Idempotency-Key', 'Via', 'X-Forwarded-For', 'Expect'
  ]) {
    assert.match(world.complaints(upstream(`${name}: x`)).join(), /cannot be overridden/, name)
  }
  assert.match(world.complaints(upstream('X-A: "a\\r\\nb"')).join(), /characters that no header may have/)
  assert.match(world.complaints(upstream('"X A": b')).join(), /requestHeaders/)
  assert.deepEqual(world.load(upstream('Authorization: Bearer x')).config.upstreams[0]?.requestHeaders, [['Authorization', 'Bearer x']])
})

test('the address of a store that is wrong is never echoed, since it may hold a password', (t) => {
  const complaints = new ConfigWorld(t).complaints(fileWith({
    rest: 'stores: { postgres: { url: "mysql://u:hunter2@h" }, redis: { url: "u:hunter2@h" } }'
  }))
  assert.equal(complaints.length, 2)
  assert.ok(!complaints.join().includes('hunter2'))
})

test('the admin port is one of its own', (t) => {
  const world = new ConfigWorld(t)
  assert.match(world.complaints(fileWith({ rest: 'admin: { port: 8080 }' })).join(), /^admin\.port: is the port of listen too/)
  world.load(fileWith({ rest: 'listen: { port: 0 }\nadmin: { port: 0 }' }))
})

test('proxies are addresses and CIDR blocks', (t) => {
  const world = new ConfigWorld(t)
  world.load(fileWith({ rest: 'trustProxies: [10.0.0.1, 10.0.0.0/8, "::1", "fd00::/8"]' }))
  assert.equal(
    world.complaints(fileWith({ rest: 'trustProxies: [10.0.0.0/33, "fd00::/129", loopback, 10.0.0.0/8/8, "10.0.0.0/"]' })).length,
    5
  )
})

test('a status that no answer has, or that says success, is refused', (t) => {
  const world = new ConfigWorld(t)
  assert.match(said(world, '{ onMismatch: { status: 200 } }').join(), /^onMismatch\.status/)
  assert.match(said(world, '{ inFlight: { status: 600 } }').join(), /^inFlight\.status/)
  assert.match(said(world, '{ keep: { statuses: { 600: keep } } }').join(), /^keep\.statuses\.600/)
  assert.deepEqual(
    world.load(fileWith({ policy: '{ keep: { statuses: { 409: release, 503: unknown } } }' })).config.routes[0]?.idempotency?.keep.statuses,
    new Map([[409, 'release'], [503, 'unknown']])
  )
})

test('an alias that stands inside what it refers to is one mistake, not a stack', (t) => {
  const world = new ConfigWorld(t)
  assert.match(world.complaints('version: 1\nroutes: &a [*a]\n').join('\n'), /an alias stands inside what it refers to/)
})

test('an event loop delay that ordinary work exceeds is refused; 0s means never', (t) => {
  const world = new ConfigWorld(t)
  const file = (text: string): string => fileWith({ rest: `limits: { eventLoopDelay: ${text} }` })
  const complaints = (text: string): string[] => world.complaints(file(text))
  assert.deepEqual(complaints('49ms'), [
    'limits.eventLoopDelay: must be at least 50ms, because ordinary work delays the loop by less; or 0s for no limit'
  ])
  assert.deepEqual(complaints('2m'), ['limits.eventLoopDelay: "2m" must be between 0s and 1m'])
  assert.deepEqual(['50ms', '0s'].map((text) => world.load(file(text)).config.limits.eventLoopDelayMs), [50, 0])
})

test('TLS to Postgres is said in one place, with files relative to this one', (t) => {
  const world = new ConfigWorld(t)
  const file = (tls: string, url = 'postgres://h/db'): string => fileWith({ rest: `stores: { postgres: { url: "${url}", tls: ${tls} } }` })
  assert.match(
    world.load(file('{ caFile: ca.pem, certFile: /own.pem, keyFile: /own.key }')).config.stores.postgres?.tls?.caFile ?? '',
    /^\/.+\/ca\.pem$/
  )
  assert.deepEqual(world.load(file('{}')).config.stores.postgres?.tls, { caFile: null, certFile: null, keyFile: null })
  assert.deepEqual(world.complaints(file('{ caFile: ca.pem }', 'postgres://h/db?sslmode=require')), [
    'stores.postgres.tls: conflicts with sslmode= in the url: set only one'
  ])
  assert.deepEqual(world.complaints(file('{ certFile: own.pem }')), ['stores.postgres.tls: needs certFile and keyFile together'])
})
