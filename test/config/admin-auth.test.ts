/** The `admin.auth` block: what it becomes, its mistakes, its warnings, and the format of the tokens file. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { changes, restartOnly } from '../../src/config/compare/changes.ts'
import { isLoopback } from '../../src/config/networks.ts'
import { parseTokens } from '../../src/config/operator-tokens.ts'
import { printConfig } from '../../src/config/print.ts'
import { ConfigWorld, fileWith } from './world.ts'

const KEY = 'k'.repeat(32)
const HEX = createHash('sha256').update('a token').digest('hex')
const OIDC = 'issuer: "https://id.example", clientId: onceway, roles: { ops: operator }'

const withAuth = (auth: string, admin = ''): string => fileWith({ rest: `admin: { ${admin} auth: { ${auth} } }` })

function mistakes (t: TestContext, auth: string, admin = ''): string[] {
  return new ConfigWorld(t).complaints(withAuth(auth, admin)).map((text) => text.replace(/^admin\.auth\./, ''))
}

test('without the block nobody can sign in, and the defaults are there', (t) => {
  const { config } = new ConfigWorld(t).load(fileWith())
  assert.deepEqual(config.admin.auth, {
    sessionKey: null,
    sessionLifetimeMs: 8 * 3_600_000,
    publicUrl: null,
    tokensFile: null,
    oidc: null,
    proxy: null
  })
  assert.deepEqual(config.warnings, [])
})

test('a whole block: secrets from files, addresses, groups and roles', (t) => {
  const world = new ConfigWorld(t)
  world.write('key', `${KEY}\n`)
  world.write('secret', 'of the client\n')
  world.write('tokens', `# people\nann@ops.example admin sha256:${HEX}   # until March\n`)
  const { config: { admin, warnings }, effective } = world.load(withAuth(`
    sessionKeyFile: key, sessionLifetime: 1h, publicUrl: "https://Onceway.Example:8443/", tokensFile: tokens,
    oidc: { ${OIDC}, clientSecretFile: secret, scopes: [openid, groups], nameClaim: upn },
    proxy: { from: [10.0.0.0/8, "fd00::1"], userHeader: X-Auth-Request-User, roles: { "/ops/admins": admin }, role: viewer }
  `, 'hosts: [ops.example],'))
  assert.deepEqual(admin.auth, {
    sessionKey: KEY,
    sessionLifetimeMs: 3_600_000,
    publicUrl: 'https://onceway.example:8443',
    tokensFile: join(world.directory, 'tokens'),
    oidc: {
      issuer: 'https://id.example',
      clientId: 'onceway',
      clientSecret: 'of the client',
      clientAuth: 'basic',
      scopes: ['openid', 'groups'],
      nameClaim: 'upn',
      groupsClaim: 'groups',
      roles: new Map([['ops', 'operator']]),
      ca: null
    },
    proxy: {
      from: ['10.0.0.0/8', 'fd00::1'],
      userHeader: 'x-auth-request-user',
      groupsHeader: 'x-forwarded-groups',
      roles: new Map([['/ops/admins', 'admin']]),
      role: 'viewer'
    }
  })
  assert.deepEqual(admin.hosts, ['127.0.0.1', 'ops.example', 'onceway.example'])
  assert.deepEqual(warnings, [])
  const printed = printConfig(effective)
  assert.ok(!printed.includes(KEY) && !printed.includes('of the client'), printed)
})

for (const [what, auth, told] of [
  [
    'a key without a way to sign in',
    `sessionKey: ${KEY}`,
    ['sessionKey: is not used: there is no tokensFile, oidc, proxy or admin.token to sign in with']
  ],
  ['a short key', 'sessionKey: short', ['sessionKey: must have at least 32 characters']],
  ['a session that never ends', 'sessionLifetime: 9999d', ['sessionLifetime: "9999d" must be between 1m and 30d: a session must end']],
  ['oidc without an address for browsers', `oidc: { ${OIDC} }`, ['publicUrl: is missing; the provider sends browsers back to it (oidc)']],
  [
    'an issuer without TLS',
    'publicUrl: "https://o.example", oidc: { issuer: "http://id.example", clientId: o, roles: { ops: operator } }',
    ['oidc.issuer: must be https://, unless the provider is on this machine']
  ],
  [
    'an issuer whose name only begins like an address of this machine',
    'publicUrl: "https://o.example", oidc: { issuer: "http://127.0.0.1.evil.example", clientId: o, roles: { ops: operator } }',
    ['oidc.issuer: must be https://, unless the provider is on this machine']
  ],
  [
    'a console with a path, no openid and an unknown role',
    'publicUrl: "https://o.example/console", oidc: { issuer: "https://id.example", clientId: o, scopes: [email], roles: { ops: admin } }, proxy: { from: [10.0.0.1], roles: { ops: operater }, role: viewer }',
    [
      'publicUrl: has a path or a query after the host; the console is at /',
      'oidc.scopes: must have openid: without it there is no ID token',
      'proxy.roles.ops: "operater" must be one of viewer, reader, operator, admin; did you mean operator?'
    ]
  ],
  [
    'a role that there is not',
    'publicUrl: "https://o.example", oidc: { issuer: "https://id.example", clientId: o, roles: { ops: operater } }',
    ['oidc.roles.ops: "operater" must be one of viewer, reader, operator, admin; did you mean operator?']
  ],
  [
    'an empty map of groups',
    'publicUrl: "https://o.example", oidc: { issuer: "https://id.example", clientId: o, roles: {} }',
    ['oidc.roles: is empty']
  ],
  [
    'a proxy without an address',
    'proxy: { role: viewer }',
    ['proxy.from: is empty; name the addresses of the proxy, because its headers decide who somebody is']
  ],
  [
    'a proxy that is anybody, or nobody',
    'proxy: { from: ["0.0.0.0/0", "::/0", nowhere], userHeader: Cookie }',
    [
      'proxy.from[0]: is every address, so anybody could be anybody',
      'proxy.from[1]: is every address, so anybody could be anybody',
      'proxy.from[2]: "nowhere" is no address and no CIDR block; write 10.0.0.5 or fd00::/64',
      'proxy.userHeader: is a header of the client itself, which no proxy vouches for',
      'proxy.roles: gives no group a role, and there is no role for everybody (role), so everybody would be refused'
    ]
  ]
] satisfies ReadonlyArray<[string, string, string[]]>) {
  test(`${what} is a mistake`, (t) => { assert.deepEqual(mistakes(t, auth).sort(), told.toSorted()) })
}

test('a tokens file that is missing or wrong is a mistake that shows none of its words', (t) => {
  const world = new ConfigWorld(t)
  const of = (): string[] => world.complaints(withAuth('tokensFile: tokens'))
  const file = join(world.directory, 'tokens')
  assert.deepEqual(of(), [`admin.auth.tokensFile: ${file} cannot be read (ENOENT)`])
  world.write('tokens', 'ann ow_secret\n')
  assert.deepEqual(of(), [`admin.auth.tokensFile: ${file}: line 1: its role is none of viewer, reader, operator, admin`])
  world.write('tokens', 'x'.repeat(600 * 1024))
  assert.deepEqual(of(), [`admin.auth.tokensFile: ${file} is too large (over 524288 bytes)`])
})

test('the lines of a tokens file', () => {
  const wrong = (text: string): string => {
    const read = parseTokens(text)
    return 'wrong' in read ? read.wrong : 'right'
  }
  const other = 'a'.repeat(64)
  assert.deepEqual(parseTokens(`\r\n# all\r\nann\tadmin  sha256:${HEX.toUpperCase()}\r\nann viewer sha256:${other}`), {
    entries: [
      { name: 'ann', role: 'admin', hash: Buffer.from(HEX, 'hex') },
      { name: 'ann', role: 'viewer', hash: Buffer.from(other, 'hex') }
    ]
  })
  assert.deepEqual(parseTokens(''), { entries: [] })
  assert.equal(wrong(`ann admin sha256:${HEX}\nbob viewer sha256:${HEX}`), 'line 2: its hash is in an earlier line too')
  assert.equal(wrong(`a\u0000b admin sha256:${HEX}`), 'line 1: a name has 1 to 128 letters, digits and . _ @ -')
  assert.equal(wrong(`${'a'.repeat(129)} admin sha256:${HEX}`), 'line 1: a name has 1 to 128 letters, digits and . _ @ -')
  assert.equal(wrong(`admin.token admin sha256:${HEX}`), 'line 1: the name admin.token is reserved for the token in the configuration')
  assert.equal(wrong('ann admin ow_a-token'), 'line 1: it must end with sha256: and 64 hex digits')
  assert.equal(wrong(`ann admin sha256:${HEX} more`), 'line 1: it must end with sha256: and 64 hex digits')
  const many = Array.from({ length: 1001 }, (_, index) => `n admin sha256:${index.toString(16).padStart(64, '0')}`)
  assert.equal(wrong(many.slice(1).join('\n')), 'right')
  assert.equal(wrong(many.join('\n')), 'it has more than 1000 entries')
})

test('oidc without a session key, and a console without TLS, are warned about', (t) => {
  const { config: { warnings } } = new ConfigWorld(t).load(withAuth(`publicUrl: "http://o.example", oidc: { ${OIDC} }`))
  assert.deepEqual(warnings.map((text) => text.split(',')[0]), [
    'admin.auth has oidc and no sessionKey',
    'admin.auth.publicUrl is http://'
  ])
  const local = new ConfigWorld(t).load(withAuth(`publicUrl: "http://localhost:8081", sessionKey: ${KEY}, oidc: { ${OIDC} }`))
  assert.deepEqual(local.config.warnings, [])
})

test('everything of it may change by a reload, and is told by name', (t) => {
  const world = new ConfigWorld(t)
  const [none, some, more] = [
    fileWith(),
    withAuth(`sessionKey: ${KEY}, publicUrl: "https://o.example", oidc: { ${OIDC} }`),
    withAuth(`sessionKey: ${KEY}, publicUrl: "https://o.example", oidc: { ${OIDC.replace('operator', 'admin')} }, proxy: { from: [10.0.0.1], role: viewer }`)
  ].map((text) => world.load(text).config)
  assert.ok(none !== undefined && some !== undefined && more !== undefined)
  const blocks = (names: readonly string[]): string[] => names.filter((name) => !/^admin\.auth\.(?:oidc|proxy)\.(?!roles)/.test(name))
  assert.deepEqual(blocks(changes(none, some)), [
    'admin.hosts', 'admin.auth.sessionKey', 'admin.auth.publicUrl', 'admin.auth.oidc', 'admin.auth.oidc.roles'
  ])
  assert.deepEqual(blocks(changes(some, more)), ['admin.auth.oidc.roles', 'admin.auth.proxy', 'admin.auth.proxy.roles'])
  assert.deepEqual([restartOnly(none, some, 10_000), restartOnly(some, more, 10_000)], [[], []])
})

test('only addresses of this machine are loopback', () => {
  assert.deepEqual(['127.0.0.1', '127.8.8.8', '::1', '[::1]', 'LOCALHOST', '::ffff:127.0.0.1'].map(isLoopback), Array(6).fill(true))
  assert.deepEqual(['127.0.0.1.evil.example', '128.0.0.1', '::2', 'localhost.example', '', '0.0.0.0'].map(isLoopback), Array(6).fill(false))
})
