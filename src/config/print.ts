/** Prints the effective configuration as YAML: with all defaults and overrides, and with secrets masked (mask.ts). */
import { stringify } from 'yaml'
import { fingerprintOf } from './routes/fingerprint.ts'
import { masked } from './read/mask.ts'
import { fileSchema } from './schema.ts'
import type { ConfigFile } from './schema.ts'
import type { SchemaNode } from './read/schema-words.ts'
import type { IdempotencyFile } from './routes/schema.ts'
import { HMAC_DEFAULTS } from './routes/schema-verify.ts'
import type { VerifyFile } from './routes/schema-verify.ts'
import { patternChild } from './read/schema-walk.ts'
import { isTree } from './read/tree.ts'

/** `effective`: of load(). */
export function printConfig (effective: ConfigFile): string {
  const routes = effective.routes.map((route) =>
    route.idempotency === undefined ? route : { ...route, idempotency: withDefaults(route.idempotency) })
  return stringify(shown({ ...effective, routes }, fileSchema()), { lineWidth: 0, aliasDuplicateObjects: false })
}

/** Adds the defaults inside unions, which the validator does not fill in. */
function withDefaults (policy: IdempotencyFile): object {
  const { verify, inbox } = policy
  return {
    ...policy,
    fingerprint: printedFingerprint(policy),
    ...(verify !== undefined && { verify: verify === 'by-key-id' ? verify : withHmac(verify) }),
    ...(inbox?.verify !== undefined && { inbox: { ...inbox, verify: withHmac(inbox.verify) } })
  }
}

function printedFingerprint (policy: IdempotencyFile): object {
  const effective = fingerprintOf(policy)
  return effective.of.includes('target') ? { query: 'exact', ...effective } : effective
}

function withHmac (verify: VerifyFile): VerifyFile {
  return verify.hmac === undefined ? verify : { ...verify, hmac: { ...HMAC_DEFAULTS, ...verify.hmac } }
}

/** Masks secrets, and sorts members in the order of the reference, so that two printed configurations can be compared by line. */
function shown (value: unknown, schema: SchemaNode | undefined): unknown {
  if (schema?.mask !== undefined) return masked(value, schema.mask)
  if (Array.isArray(value)) return value.map((item) => shown(item, schema?.items))
  if (!isTree(value) || schema === undefined) return value
  const branch = schema.anyOf?.find(({ properties }) => properties !== undefined) ?? schema
  const names = [...new Set([...Object.keys(branch.properties ?? {}), ...Object.keys(value)])].filter((name) => Object.hasOwn(value, name))
  return Object.fromEntries(names.map((name) => [name, shown(value[name], branch.properties?.[name] ?? patternChild(branch))]))
}
