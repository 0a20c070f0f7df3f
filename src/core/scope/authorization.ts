/**
 * Reads the Authorization header to tell callers apart, by rules 1. A bearer token is the caller. A signature is new with every request, so
 * for a signing scheme only the stable id counts. Nothing is verified here. A public id separates callers, and a stranger would still have
 * to know the random key. The result must stay as it is, because rows of earlier releases are found by it. Rules 2 are in
 * credential-line.ts.
 */
import { framedDigest } from '../record/digest.ts'
import type { ScopeResult } from './caller.ts'

/** The scope of one Authorization line. */
export function authorizationScope (line: string): ScopeResult {
  const { scheme, credentials } = parseAuthorization(line)
  if (scheme === '') return { kind: 'missing', detail: 'The Authorization header is empty.' }
  if (SECRET_SCHEMES.has(scheme)) return secretScope(scheme, credentials)
  const signing = scheme.startsWith('aws4-') ? AWS4 : SIGNING.get(scheme)
  return signing === undefined ? unknownScheme(scheme, credentials) : signingScope(signing, credentials)
}

interface Authorization { /** Lower case. */ readonly scheme: string, readonly credentials: string }

/** Scheme names have no case and may be followed by several spaces (RFC 9110 11.4). The credentials are exact. */
export function parseAuthorization (line: string): Authorization {
  const value = line.trim()
  const space = value.search(/[ \t]/)
  if (space < 0) return { scheme: value.toLowerCase(), credentials: '' }
  return { scheme: value.slice(0, space).toLowerCase(), credentials: value.slice(space).trim() }
}

/** Schemes whose credentials are the same on every request of one caller. */
const SECRET_SCHEMES: ReadonlySet<string> = new Set(['bearer', 'basic'])

function secretScope (scheme: string, credentials: string): ScopeResult {
  if (credentials === '') return { kind: 'missing', detail: `The Authorization header has the scheme ${scheme} and no credential.` }
  return named(scheme, [credentials])
}

interface SigningScheme {
  readonly label: string
  /** The parameter that names the caller. */
  readonly id: string
  /** Parameters that narrow the id down, if they are given. */
  readonly with: readonly string[]
  /** The stable part of the parameter. */
  readonly cut?: (value: string) => string
}

/** AWS4-HMAC-SHA256 and its asymmetric variant: Credential=<access key id>/<date>/<region>/…. The date changes at midnight. */
const AWS4: SigningScheme = { label: 'aws4', id: 'credential', with: [], cut: (value) => value.split('/', 1)[0] ?? '' }

const SIGNING: ReadonlyMap<string, SigningScheme> = new Map([
  ['signature', { label: 'signature', id: 'keyid', with: [] }],
  ['hawk', { label: 'hawk', id: 'id', with: [] }],
  ['digest', { label: 'digest', id: 'username', with: ['realm'] }],
  ['oauth', { label: 'oauth', id: 'oauth_consumer_key', with: ['oauth_token'] }]
])

function signingScope (scheme: SigningScheme, credentials: string): ScopeResult {
  const params = parseParams(credentials)
  const value = params?.get(scheme.id)
  const id = value === undefined ? '' : scheme.cut?.(value) ?? value
  if (params === null || id === '') {
    return {
      kind: 'missing',
      detail: `The Authorization header has the scheme ${scheme.label} and no readable ${scheme.id}; this route tells callers apart by it.`
    }
  }
  return named(scheme.label, [id, ...scheme.with.map((name) => params.get(name) ?? '')])
}

function unknownScheme (scheme: string, credentials: string): ScopeResult {
  const warning = 'The Authorization scheme is not known: the whole header tells callers apart. If it differs between retries of one caller, configure the scope of this route.'
  return { ...named('authorization', [scheme, credentials]), warning }
}

function named (label: string, parts: readonly string[]): { kind: 'scope', scope: string } {
  return { kind: 'scope', scope: `${label}:${framedDigest([label, ...parts]).toString('base64url')}` }
}

/** name=token or name="quoted", between commas. Each alternative is read in one pass. */
const PARAM = /[ \t,]*([A-Za-z0-9!#$%&'*+.^_`|~-]+)[ \t]*=[ \t]*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))[ \t]*(?=,|$)/y

/** Parameters by lower-case name. null: they cannot be read, or one is given twice (hops differ in which they believe). */
export function parseParams (credentials: string): Map<string, string> | null {
  const params = new Map<string, string>()
  let at = 0
  while (at < credentials.length) {
    PARAM.lastIndex = at
    const match = PARAM.exec(credentials)
    const name = match?.[1]?.toLowerCase()
    if (match === null || name === undefined || params.has(name)) return null
    params.set(name, match[2]?.replace(/\\(.)/g, '$1') ?? match[3] ?? '')
    at = PARAM.lastIndex
  }
  return params
}
