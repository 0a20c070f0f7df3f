/** The `issuedKeys` block: its checks, the checks of routes that require issued keys, and its policy. */
import { isDeepStrictEqual } from 'node:util'
import { resolve } from 'node:path'
import { KEY_OVERTIME_MS } from '../core/key/issued-keys.ts'
import type { IssuedKeysPolicy, JwtPolicy } from '../core/policy/policy.ts'
import { checkJwt, isUrl } from './routes/check.ts'
import { INBOX_DEFAULTS } from './routes/inbox.ts'
import { readKeySources } from './routes/key-source.ts'
import { mistake } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import type { IssuedKeysFile } from './schema.ts'
import type { IdempotencyFile } from './routes/schema.ts'
import { readScope } from './routes/scope.ts'
import { parseDuration } from './read/units.ts'

const HERE: Path = ['issuedKeys']

// ---------------------------------------------------------------- checks

export function checkIssuedKeys (file: IssuedKeysFile | undefined, base: string): Mistake[] {
  if (file === undefined) return []
  const scope = readScope(file.scope)
  return [
    ...('wrong' in scope ? [mistake([...HERE, 'scope'], scope.wrong)] : checkJwt(file, HERE, base)),
    ...file.secrets.flatMap(({ id, secret }, index) => {
      const path = [...HERE, 'secrets', index]
      const first = file.secrets.findIndex((other) => other.id === id)
      return [
        ...(first < index
          ? [mistake([...path, 'id'], `is the id of secrets[${first}] too; a key must name the one secret that signed it`)]
          : []),
        ...(secret === undefined ? [mistake([...path, 'secret'], 'is missing; give secret or secretFile', 'key')] : [])
      ]
    })
  ]
}

/** Refuses a route whose issued keys would never be accepted, or would outlive their records. */
export function checkOnlyIssued (policy: IdempotencyFile, file: IssuedKeysFile | undefined, path: Path): Mistake[] {
  if (policy.key.issued !== 'required') return []
  if (policy.mode === 'drop') {
    return [mistake(
      [...path, 'key', 'issued'],
      'cannot be required with mode drop: an issued key executes once, but a mark may expire before its key'
    )]
  }
  if (file === undefined) {
    return [mistake([...path, 'key', 'issued'], 'needs issuedKeys, which issue the keys')]
  }
  const sources = readKeySources(policy.key.from)
  const scopes = [readScope(policy.scope), readScope(file.scope)]
  return [
    ...('value' in sources && sources.value.some(({ kind }) => kind !== 'header')
      ? [mistake([...path, 'key', 'from'], 'must be header: only, with issued: required; a derived key is never issued')]
      : []),
    ...(scopes.every((scope) => 'value' in scope) && !isDeepStrictEqual(...scopes as [unknown, unknown])
      ? [mistake([...path, 'scope'], 'must be the scope of issuedKeys, with issued: required; a key is valid only in the scope that it was issued for')]
      : []),
    ...(['retention', 'unknownRetention'] as const).flatMap((name) => outlives(file, policy[name])
      ? [mistake([...path, name], `must be at least five minutes more than issuedKeys.lifetime (${file.lifetime}) with issued: required; a key must not outlive its record`)]
      : []),
    ...(policy.mode === 'inbox' || policy.async === 'allowed' ? forgottenMessages(policy, file, path) : [])
  ]
}

function forgottenMessages ({ inbox }: IdempotencyFile, file: IssuedKeysFile, path: Path): Mistake[] {
  const { deadRetention } = inbox ?? INBOX_DEFAULTS
  return outlives(file, deadRetention)
    ? [mistake(
        [...path, 'inbox', 'deadRetention'],
      `must be at least five minutes more than issuedKeys.lifetime (${file.lifetime}) with issued: required; a key must not outlive its message`
      )]
    : []
}

function outlives ({ lifetime }: IssuedKeysFile, retention: string): boolean {
  return (parseDuration(lifetime) ?? 0) + KEY_OVERTIME_MS > (parseDuration(retention) ?? 0)
}

// ---------------------------------------------------------------- policy

/** `file` has passed checkIssuedKeys. */
export function issuedKeysOf (file: IssuedKeysFile | undefined, base: string): IssuedKeysPolicy | null {
  if (file === undefined) return null
  const scope = readScope(file.scope)
  const lifetimeMs = parseDuration(file.lifetime)
  if ('wrong' in scope || lifetimeMs === null) throw new Error('issuedKeys: the check let it pass')
  return {
    scope: scope.value,
    jwt: jwtOf(file.jwt, base),
    secrets: file.secrets.map(({ id, secret = '' }) => ({ id, secret })),
    lifetimeMs
  }
}

export function jwtOf (file: IdempotencyFile['jwt'], base: string): JwtPolicy | null {
  if (file === undefined) return null
  return { jwks: isUrl(file.jwks) ? file.jwks : resolve(base, file.jwks), issuer: file.issuer ?? null, audience: file.audience ?? null }
}
