/** `issuedKeys`: its rules, those of the routes that take no other keys, and both in the program's shape. */
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

// ---------------------------------------------------------------- what goes with what

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
          ? [mistake([...path, 'id'], `is the id of secrets[${first}] too; nobody could tell which of them has signed`)]
          : []),
        ...(secret === undefined ? [mistake([...path, 'secret'], 'is missing; give secret or secretFile', 'key')] : [])
      ]
    })
  ]
}

/** A key that no request could be let in with, or that outlives its record, is a mistake in the file. */
export function checkOnlyIssued (policy: IdempotencyFile, file: IssuedKeysFile | undefined, path: Path): Mistake[] {
  if (policy.key.issued !== 'required') return []
  if (policy.mode === 'drop') {
    return [mistake(
      [...path, 'key', 'issued'],
      'cannot be required with mode drop: its marks are gone before a key is, and an issued key executes once'
    )]
  }
  if (file === undefined) {
    return [mistake([...path, 'key', 'issued'], 'needs issuedKeys: nobody else could give out a key that is taken here')]
  }
  const sources = readKeySources(policy.key.from)
  const scopes = [readScope(policy.scope), readScope(file.scope)]
  return [
    ...('value' in sources && sources.value.some(({ kind }) => kind !== 'header')
      ? [mistake([...path, 'key', 'from'], 'must be header: alone with issued: required; what is derived was issued by nobody')]
      : []),
    ...(scopes.every((scope) => 'value' in scope) && !isDeepStrictEqual(...scopes as [unknown, unknown])
      ? [mistake([...path, 'scope'], 'must be that of issuedKeys with issued: required; a key is good for the scope that it was issued in')]
      : []),
    ...(['retention', 'unknownRetention'] as const).flatMap((name) => outlives(file, policy[name])
      ? [mistake([...path, name], `must be at least five minutes more than issuedKeys.lifetime (${file.lifetime}) with issued: required; a key must not outlive what it did`)]
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

// ---------------------------------------------------------------- in the program's shape

/** Of a file that was checked. */
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
