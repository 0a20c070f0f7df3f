/** The `admin.auth` block, which says who may use the operator API and the console: its schema, its checks and its configuration. */
import { readFileSync, statSync } from 'node:fs'
import { resolve } from 'node:path'
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { hostName } from '../routing/target.ts'
import { ROLES } from '../core/operator/roles.ts'
import type { Role } from '../core/operator/roles.ts'
import { areAuthorities } from './certificates.ts'
import type { AdminAuthConfig, OidcConfig, ProxyAuthConfig } from './config.ts'
import { isLoopback, isNetwork } from './networks.ts'
import { parseTokens, TOKENS_FILE_BYTES_MAX } from './operator-tokens.ts'
import { mistake, printable } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { duration, secret, shape, TOKEN_PATTERN, url } from './read/schema-words.ts'
import { parseDuration } from './read/units.ts'

/** An AES-256 key is derived from it, which should have as many random bytes. */
const SESSION_KEY = { minLength: 32, maxLength: 1024 } as const
/** More groups in one mapping are a directory. */
const GROUPS_MAX = 256
/** Longer than the path of any group. Control characters are in no name. */
const GROUP_PATTERN = '^[^\\x00-\\x1f\\x7f]{1,256}$'
/** One word of an address, a scope or a claim. */
const WORD_CHARS_MAX = 512

const Text = (description: string) => Type.String({ minLength: 1, maxLength: WORD_CHARS_MAX, description })
const OptionalText = (description: string) => Type.Optional(Text(description))

const GroupRoles = (description: string, more: { readonly minProperties: 1 } | { readonly default: object }) =>
  Type.Record(Type.String({ pattern: GROUP_PATTERN }), Type.Enum([...ROLES]), { ...shape, maxProperties: GROUPS_MAX, ...more, description })

const Oidc = Type.Object({
  issuer: url('The provider\'s issuer, as in its discovery document: https://id.example/realms/ops. http:// only on loopback.'),
  clientId: Text('The id of onceway at the provider. Its redirect URI there is `publicUrl` with /sign-in/callback.'),
  clientSecret: secret('The secret of onceway at the provider. Absent: a public client, which PKCE alone protects.', { maxLength: 1024 }),
  clientSecretFile: OptionalText('File with `clientSecret`.'),
  clientAuth: Type.Enum(['basic', 'post'], {
    default: 'basic',
    description: 'How `clientSecret` is sent to the provider: in the Authorization header (client_secret_basic), or in the form (client_secret_post).'
  }),
  scopes: Type.Array(Type.String({ pattern: '^[\\x21\\x23-\\x5b\\x5d-\\x7e]{1,128}$' }), {
    default: ['openid', 'profile', 'email'],
    minItems: 1,
    maxItems: 32,
    description: 'What is asked of the provider. Some providers send groups only with a scope of their own.'
  }),
  nameClaim: OptionalText('The claim with the operator\'s name for the audit. `email` counts only with `email_verified`. Absent: a verified `email`, else a `preferred_username` without @, else `sub`.'),
  groupsClaim: Type.String({
    minLength: 1,
    maxLength: WORD_CHARS_MAX,
    default: 'groups',
    description: 'The claim with the groups: a list, or one text. It is looked up in the ID token, then in the userinfo.'
  }),
  roles: GroupRoles('Role of each group. Of several the highest counts. Who is in none of them is refused.', { minProperties: 1 }),
  ca: secret('The authority (PEM) that signed the provider\'s certificate, instead of those that Node trusts.'),
  caFile: OptionalText('File with `ca`. Read at start and at every reload.')
}, { ...shape, description: 'Sign in with OpenID Connect (authorization code with PKCE). Needs `publicUrl`. A change of `issuer`, `clientId`, a claim or `roles` ends its sessions.' })

const Proxy = Type.Object({
  from: Type.Array(Type.String(), {
    default: [],
    maxItems: 256,
    description: 'Addresses and CIDR blocks of the proxy. From any other address the headers count for nothing.'
  }),
  userHeader: Type.String({
    pattern: TOKEN_PATTERN,
    default: 'X-Forwarded-User',
    description: 'Header with the operator\'s name. The proxy must set or remove it in every request. The default is that of oauth2-proxy. Behind `auth_request` of nginx it is often X-Auth-Request-User.'
  }),
  groupsHeader: Type.String({
    pattern: TOKEN_PATTERN,
    default: 'X-Forwarded-Groups',
    description: 'Header with the operator\'s groups, separated by commas. The proxy must set or remove it in every request.'
  }),
  roles: GroupRoles('Role of each group. Of several the highest counts. Who has no role is refused.', { default: {} }),
  role: Type.Optional(Type.Enum([...ROLES], {
    description: 'Role of everybody who comes through the proxy. A group may give a higher one.'
  }))
}, { ...shape, description: 'Believe the headers of a proxy that signs operators in, such as oauth2-proxy. Whoever can connect from `from` can be anybody.' })

export const AdminAuth = Type.Object({
  sessionKey: secret(
    'Key of the session cookies: 32 random characters or more (`openssl rand -base64 32`), the same in every gateway. A new key ends all sessions. Absent: each process has a random key, so a session is valid in one process, until it ends.',
    SESSION_KEY
  ),
  sessionKeyFile: OptionalText('File with `sessionKey`.'),
  sessionLifetime: duration('8h', 'How long a session lasts, however it is used. Who loses a group at the OIDC provider keeps the role until then.'),
  publicUrl: Type.Optional(url('Address of the console in browsers, without a path: https://onceway.example. Its host counts as one of `admin.hosts`. With https:// cookies are `Secure`.')),
  tokensFile: OptionalText('File of operator tokens: `NAME ROLE sha256:HEX` on each line, as `onceway token` prints it. Read again when it changes. A removed line ends the sessions of its token.'),
  oidc: Type.Optional(Oidc),
  proxy: Type.Optional(Proxy)
}, {
  ...shape,
  default: {},
  description: 'Who may use the operator API and the console. Roles: viewer (no answers), reader (answers), operator (changes), admin (deletes of many records). Without a way to sign in, there is only a read-only view on loopback.'
})

export type AdminAuthFile = Static<typeof AdminAuth>
type OidcFile = NonNullable<AdminAuthFile['oidc']>
type ProxyFile = NonNullable<AdminAuthFile['proxy']>

const HERE: Path = ['admin', 'auth']

// ---------------------------------------------------------------- checks

/** `sound`: whether the schema accepts this part. `base`: the directory of relative file names. */
export function checkAdminAuth (auth: AdminAuthFile, token: string | undefined, sound: (path: Path) => boolean, base: string): Mistake[] {
  const { publicUrl, tokensFile, oidc, proxy } = auth
  const wrongUrl = publicUrl === undefined ? null : wrongPublicUrl(publicUrl)
  const wrongFile = tokensFile === undefined ? null : readTokens(resolve(base, tokensFile))
  return [
    ...checkMethods(auth, token),
    ...(wrongUrl === null ? [] : [mistake([...HERE, 'publicUrl'], wrongUrl)]),
    ...(wrongFile !== null && 'wrong' in wrongFile ? [mistake([...HERE, 'tokensFile'], wrongFile.wrong)] : []),
    ...(oidc !== undefined && sound([...HERE, 'oidc']) ? checkOidc(oidc, publicUrl) : []),
    ...(proxy !== undefined && sound([...HERE, 'proxy']) ? checkProxy(proxy) : [])
  ]
}

function checkMethods ({ sessionKey, publicUrl, tokensFile, oidc, proxy }: AdminAuthFile, token: string | undefined): Mistake[] {
  const idle = Object.entries({ sessionKey, publicUrl }).find(([, value]) => value !== undefined)
  if (idle === undefined || [tokensFile, oidc, proxy, token].some((method) => method !== undefined)) return []
  return [mistake([...HERE, idle[0]], 'is not used: there is no tokensFile, oidc, proxy or admin.token to sign in with', 'key')]
}

/** The messages never show the URL, because it may have a password. */
function wrongPublicUrl (text: string): string | null {
  const parsed = URL.parse(text)
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) return 'is no URL; write https://onceway.example'
  if (parsed.username !== '' || parsed.password !== '') return 'has credentials in it'
  // URL parsing adds a slash and drops an empty `?` or `#`, so the text itself is checked.
  if (!/^https?:\/\/[^/?#\\]+\/?$/i.test(text)) return 'has a path or a query after the host; the console is at /'
  return null
}

function checkOidc ({ issuer, scopes, ca, clientSecret, clientAuth }: OidcFile, publicUrl: string | undefined): Mistake[] {
  const path = [...HERE, 'oidc']
  const wrong = wrongIssuer(issuer)
  return [
    ...(wrong === null ? [] : [mistake([...path, 'issuer'], wrong)]),
    ...(publicUrl === undefined
      ? [mistake([...HERE, 'publicUrl'], 'is missing; the provider sends browsers back to it (oidc)', 'key')]
      : []),
    ...(scopes.includes('openid') ? [] : [mistake([...path, 'scopes'], 'must have openid: without it there is no ID token')]),
    ...(ca === undefined || areAuthorities(ca) ? [] : [mistake([...path, 'ca'], 'is no certificate in PEM')]),
    ...(ca !== undefined && wrong === null && new URL(issuer).protocol === 'http:'
      ? [mistake([...path, 'ca'], 'needs https:// in the issuer', 'key')]
      : []),
    ...(clientSecret === undefined && clientAuth === 'post' ? [mistake([...path, 'clientAuth'], 'needs clientSecret', 'key')] : [])
  ]
}

function wrongIssuer (text: string): string | null {
  const parsed = URL.parse(text)
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) return 'is no URL; write https://id.example'
  if (parsed.protocol === 'http:' && !isLoopback(parsed.hostname)) return 'must be https://, unless the provider is on this machine'
  return parsed.username !== '' || parsed.password !== '' || /[?#]/.test(text) ? 'has credentials, a query or a fragment' : null
}

function checkProxy ({ from, userHeader, groupsHeader, roles, role }: ProxyFile): Mistake[] {
  const path = [...HERE, 'proxy']
  return [
    ...(from.length > 0
      ? []
      : [mistake([...path, 'from'], 'is empty; name the addresses of the proxy, because its headers decide who somebody is', 'key')]),
    ...from.flatMap((text, index) => {
      const wrong = wrongFrom(text)
      return wrong === null ? [] : [mistake([...path, 'from', index], wrong)]
    }),
    ...(userHeader.toLowerCase() === groupsHeader.toLowerCase() ? [mistake([...path, 'groupsHeader'], 'is userHeader too')] : []),
    ...([['userHeader', userHeader], ['groupsHeader', groupsHeader]] as const)
      .filter(([, header]) => CLIENTS_HEADER.test(header))
      .map(([name]) => mistake([...path, name], 'is a header of the client itself, which no proxy vouches for')),
    ...(role === undefined && Object.keys(roles).length === 0
      ? [mistake([...path, 'roles'], 'gives no group a role, and there is no role for everybody (role), so everybody would be refused', 'key')]
      : [])
  ]
}

/** Any client sends these, and proxies pass them on. */
const CLIENTS_HEADER = /^(authorization|cookie|host|origin|referer|user-agent)$/i

function wrongFrom (text: string): string | null {
  if (!isNetwork(text)) return `"${printable(text)}" is no address and no CIDR block; write 10.0.0.5 or fd00::/64`
  return text.endsWith('/0') ? 'is every address, so anybody could be anybody' : null
}

function readTokens (file: string): ReturnType<typeof parseTokens> {
  try {
    if (statSync(file).size > TOKENS_FILE_BYTES_MAX) return { wrong: `${file} is too large (over ${TOKENS_FILE_BYTES_MAX} bytes)` }
    const read = parseTokens(readFileSync(file, 'utf8'))
    return 'wrong' in read ? { wrong: `${file}: ${read.wrong}` } : read
  } catch (error) {
    return { wrong: `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})` }
  }
}

// ---------------------------------------------------------------- configuration

/** `auth` has passed checkAdminAuth. */
export function adminAuthOf (auth: AdminAuthFile, base: string): AdminAuthConfig {
  const { sessionKey, sessionLifetime, publicUrl, tokensFile, oidc, proxy } = auth
  return {
    sessionKey: sessionKey ?? null,
    sessionLifetimeMs: parseDuration(sessionLifetime) ?? 0,
    publicUrl: publicUrl === undefined ? null : new URL(publicUrl).origin,
    tokensFile: tokensFile === undefined ? null : resolve(base, tokensFile),
    oidc: oidc === undefined ? null : oidcOf(oidc),
    proxy: proxy === undefined ? null : proxyOf(proxy)
  }
}

function oidcOf ({ issuer, clientId, clientSecret, clientAuth, scopes, nameClaim, groupsClaim, roles, ca }: OidcFile): OidcConfig {
  return {
    issuer,
    clientId,
    clientSecret: clientSecret ?? null,
    clientAuth,
    scopes,
    nameClaim: nameClaim ?? null,
    groupsClaim,
    roles: rolesOf(roles),
    ca: ca ?? null
  }
}

function proxyOf ({ from, userHeader, groupsHeader, roles, role }: ProxyFile): ProxyAuthConfig {
  return {
    from,
    userHeader: userHeader.toLowerCase(),
    groupsHeader: groupsHeader.toLowerCase(),
    roles: rolesOf(roles),
    role: role ?? null
  }
}

function rolesOf (roles: Readonly<Record<string, Role>>): ReadonlyMap<string, Role> {
  return new Map(Object.entries(roles))
}

/** The host names of the admin port: its own address, `admin.hosts`, and that of `publicUrl`. */
export function adminHosts (admin: { readonly host: string, readonly hosts: readonly string[], readonly auth: AdminAuthFile }): string[] {
  const { host, hosts, auth: { publicUrl } } = admin
  return [host, ...hosts, ...publicUrl === undefined ? [] : [hostName(new URL(publicUrl).hostname)]]
}

export function adminAuthWarnings ({ sessionKey, publicUrl, oidc }: AdminAuthFile): string[] {
  const address = publicUrl === undefined ? null : new URL(publicUrl)
  return [
    ...(oidc !== undefined && sessionKey === undefined
      ? ['admin.auth has oidc and no sessionKey, so a sign-in that another gateway or a new process continues fails, and sessions are valid in one process alone. Set sessionKeyFile, the same in every gateway.']
      : []),
    ...(address?.protocol === 'http:' && !isLoopback(address.hostname)
      ? ['admin.auth.publicUrl is http://, so tokens and sessions of operators cross the network unencrypted. Put TLS in front of the admin port, and write https://.']
      : [])
  ]
}
