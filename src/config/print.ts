/** The effective configuration as YAML, for people: every default filled in, every override applied, every secret masked. */
import { stringify } from 'yaml'
import { fingerprintOf } from './fingerprint.ts'
import { fileSchema } from './schema.ts'
import type { ConfigFile, RedisFile, SchemaNode } from './schema.ts'
import type { IdempotencyFile } from './schema-route.ts'
import { HMAC_DEFAULTS } from './schema-verify.ts'
import type { VerifyFile } from './schema-verify.ts'
import { patternChild } from './schema-walk.ts'
import { isTree } from './tree.ts'

const MASK = '***'
/** Names of headers whose values open doors. */
const SECRET_HEADER = /authorization|cookie|token|secret|password|credential|api-?key|signature|^x-.*-key$/i

/** `effective`: as load() gives it. */
export function printConfig (effective: ConfigFile): string {
  const { admin, stores, issuedKeys, upstreams, routes } = effective
  const shown = {
    ...effective,
    ...(effective.secret !== undefined && { secret: MASK }),
    ...(effective.previousSecret !== undefined && { previousSecret: MASK }),
    admin: { ...admin, ...(admin.token !== undefined && { token: MASK }) },
    stores: {
      ...(stores.postgres && { postgres: { ...stores.postgres, url: maskUrl(stores.postgres.url) } }),
      ...(stores.redis && { redis: maskRedis(stores.redis) })
    },
    ...(issuedKeys && { issuedKeys: { ...issuedKeys, secrets: issuedKeys.secrets.map(({ id }) => ({ id, secret: MASK })) } }),
    upstreams: mapMembers(upstreams, (upstream) => ({ ...upstream, requestHeaders: mapMembers(upstream.requestHeaders, maskHeader) })),
    routes: routes.map((route) => route.idempotency === undefined
      ? route
      : { ...route, idempotency: { ...route.idempotency, fingerprint: printedFingerprint(route.idempotency), ...maskVerify(route.idempotency) } })
  }
  return stringify(inSchemaOrder(shown, fileSchema()), { lineWidth: 0, aliasDuplicateObjects: false })
}

function printedFingerprint (policy: IdempotencyFile): object {
  const effective = fingerprintOf(policy)
  return effective.of.includes('target') ? { query: 'exact', ...effective } : effective
}

function maskVerify ({ verify, inbox }: IdempotencyFile): Pick<IdempotencyFile, 'verify' | 'inbox'> {
  return {
    ...(verify !== undefined && { verify: verify === 'by-key-id' ? verify : shownVerify(verify) }),
    ...(inbox?.verify !== undefined && { inbox: { ...inbox, verify: shownVerify(inbox.verify) } })
  }
}

function shownVerify (verify: VerifyFile): VerifyFile {
  const { secret, previousSecret, hmac } = verify
  return { ...verify, ...(hmac !== undefined && { hmac: { ...HMAC_DEFAULTS, ...hmac } }), ...(secret !== undefined && { secret: MASK }), ...(previousSecret !== undefined && { previousSecret: MASK }) }
}

/** Members in the order of the reference, wherever they came from: two printed configurations can be compared line by line. */
function inSchemaOrder (value: unknown, schema: SchemaNode | undefined): unknown {
  if (Array.isArray(value)) return value.map((item) => inSchemaOrder(item, schema?.items))
  if (!isTree(value) || schema === undefined) return value
  const branch = schema.anyOf?.find(({ properties }) => properties !== undefined) ?? schema
  const names = [...new Set([...Object.keys(branch.properties ?? {}), ...Object.keys(value)])].filter((name) => Object.hasOwn(value, name))
  return Object.fromEntries(names.map((name) => [name, inSchemaOrder(value[name], branch.properties?.[name] ?? patternChild(branch))]))
}

function maskRedis (redis: RedisFile): object {
  const { url, sentinel } = redis
  return { ...maskMembers(redis), ...(url !== undefined && { url: maskUrl(url) }), ...(sentinel !== undefined && { sentinel: maskMembers(sentinel) }) }
}

function maskMembers<T extends Pick<RedisFile, 'password' | 'tls'>> (block: T): T {
  const { password, tls } = block
  return { ...block, ...(password !== undefined && { password: MASK }), ...(tls?.key !== undefined && { tls: { ...tls, key: MASK } }) }
}

/** Without its password, wherever a URL can carry one. */
export function maskUrl (text: string | undefined): string | undefined {
  if (text === undefined || !URL.canParse(text)) return text === undefined ? undefined : MASK
  const url = new URL(text)
  if (url.password !== '') url.password = MASK
  for (const name of [...url.searchParams.keys()]) if (/password|secret|token/i.test(name)) url.searchParams.set(name, MASK)
  return url.href
}

/** A header's value, as it may be shown. */
export function maskHeader (value: string, name: string): string {
  return SECRET_HEADER.test(name) ? MASK : value
}

function mapMembers<T, U> (members: Readonly<Record<string, T>>, change: (value: T, name: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [name, change(value, name)]))
}
