/**
 * The scope of a caller by rules 2. All stable carriers and all selectors make the scope together, so one carrier more is another scope.
 * Carriers that change between retries never join it, and alone they name no caller.
 */
import { CLIENT_CERTIFICATE, COOKIE, CREDENTIAL, PROXY_USER, SIGNATURE } from '../headers/carrier-kinds.ts'
import type { Carrier } from '../headers/carriers.ts'
import { firstLookAlike } from '../headers/carrier-names.ts'
import { readCredentialLine } from './credential-line.ts'
import type { CredentialLine } from './credential-line.ts'
import { framedDigest } from '../record/digest.ts'
import { claimsOrigin } from '../forward/forwarding.ts'
import { plainName } from '../headers/fields.ts'
import type { CredentialPolicy } from '../policy/policy.ts'
import type { Caller, ScopeResult } from './caller.ts'
import { findCarriers } from '../headers/found-carriers.ts'
import type { FoundCarriers } from '../headers/found-carriers.ts'
import type { Signing } from '../headers/signature.ts'

export interface CallerOptions {
  readonly signing: Signing
  /** Lower-case names of fields with a meaning of their own on this route: those of its key and those that its scope names. */
  readonly own?: () => readonly string[]
  /** The result of {@link findCarriers}, if the caller has it already. */
  readonly carriers?: FoundCarriers
}

/** Keeps these digests apart from all others. */
const DOMAIN = ['caller', '2'] as const
/** A name that no field can have. */
const OWN_CERTIFICATE = '(client certificate)'
/** The most names in a label. */
const LABEL_NAMES_MAX = 4
/** The client chose the header's name. A longer one is not repeated. */
const NAME_MAX = 64

export function callerScope (
  caller: Caller,
  { anonymous }: CredentialPolicy,
  { signing, own = nothing, carriers = findCarriers(caller.rawHeaders) }: CallerOptions
): ScopeResult {
  if (carriers.repeated !== null) return missing(twoOf(carriers.repeated))
  const read = readLines(carriers, signing, caller.forwarded)
  if ('detail' in read) return missing(read.detail)
  const { selecting, warning } = read
  const certificate = ownCertificate(caller)
  const naming = certificate === null
    ? read.naming
    : [...read.naming, { name: OWN_CERTIFICATE, value: certificate, forwarded: false, lookAlike: false }]
  // The gateway removes forwarded fields of an untrusted peer, and look-alikes. Such a field may tell callers apart, but it names no
  // caller.
  if (naming.some(({ forwarded, lookAlike }) => !lookAlike && (!forwarded || caller.forwarded.trusted))) {
    return { ...scopeNamed('', [...naming, ...selecting]), ...(warning !== undefined && { warning }) }
  }
  if (signing === 'verified') return scopeNamed('verified', [...naming, ...selecting])
  const [unbelieved] = naming
  if (unbelieved?.lookAlike === true) {
    return missing(`The request names its caller by ${titled(unbelieved.name)} alone, and the gateway takes that field away: servers may take it for ${titled(plainName(unbelieved.name))}. Send it so, or configure the scope of this route by it (header:${unbelieved.name}).`)
  }
  if (unbelieved !== undefined) {
    return missing(
      `The request names its caller by ${titled(unbelieved.name)} alone, and it does not come from one of trustProxies: ${CONFIGURE_PROXY}`
    )
  }
  const rotating = carriers.rotating.find(({ name }) => !own().includes(name))
  if (rotating !== undefined) return missing(rotatingAlone(rotating, signing))
  const lookAlike = firstLookAlike(caller.rawHeaders, own())
  if (lookAlike !== null) return missing(`The request may name its caller by ${lookAlike.length <= NAME_MAX ? lookAlike : 'a header'}, which the gateway does not know. ${CONFIGURE_PART}`)
  return anonymous
    ? scopeNamed('anonymous', selecting)
    : missing(`The request shows no credential that the gateway knows. Send one (Authorization, X-Api-Key), or configure the scope of this route: ${PARTS}`)
}

/**
 * Adds the account or tenant that the request selects to a scope of parts. `named`: fields that the parts read themselves, in lower case.
 */
export function scopeForSelected (
  found: Extract<ScopeResult, { kind: 'scope' }>,
  { lines, repeated }: FoundCarriers,
  named: readonly string[]
): ScopeResult {
  if (repeated !== null) return missing(twoOf(repeated))
  const selecting = lines.filter(({ name, carrier }) => carrier.class === 'selector' && !named.includes(name))
  if (selecting.length === 0) return found
  const sorted = inOrder(selecting)
  const label = labelOf(found.scope.slice(0, Math.max(0, found.scope.lastIndexOf(':'))), sorted)
  return { ...found, scope: `${label}:${framedDigest(['selected', '2', found.scope, ...sorted.flatMap(({ name, value }) => [name, value])]).toString('base64url')}` }
}

/** The certificate of a trusted proxy names the proxy: a retry may come through another one. null: there is none that names the caller. */
export function ownCertificate ({ clientCertificate, forwarded: { trusted } }: Caller): string | null {
  return trusted ? null : clientCertificate
}

interface Named {
  readonly name: string
  readonly value: string
  /** Removed if the peer is not trusted. */
  readonly forwarded: boolean
  /** Another spelling of a carrier's name. It does not reach the upstream. */
  readonly lookAlike: boolean
}

/** `naming`: fields that name the caller. `selecting`: selectors, and fields that a proxy left empty. */
type Read =
  | { readonly naming: readonly Named[], readonly selecting: readonly Named[], readonly warning: string | undefined }
  | { readonly detail: string }

function readLines ({ lines }: FoundCarriers, signing: Signing, origin: Caller['forwarded']): Read {
  const naming: Named[] = []
  const selecting: Named[] = []
  let warning: string | undefined
  for (const { name, value, carrier } of lines) {
    const way = { forwarded: claimsOrigin(carrier.name, origin), lookAlike: name !== carrier.name }
    if (carrier.class === 'selector') selecting.push({ name, value, ...way })
    else if (carrier.what === CREDENTIAL) {
      const line = readCredentialLine(value)
      const said = credentialValue(line, carrier, signing)
      if (typeof said !== 'string') return said
      if (line.kind === 'token' && !line.known) warning = UNKNOWN_SCHEME
      naming.push({ name, value: said, ...way })
    } else if (value !== '') naming.push({ name, value, ...way })
    // Proxies that always set the field leave it empty if there was no caller.
    else if (carrier.what === PROXY_USER || carrier.what === CLIENT_CERTIFICATE) selecting.push({ name, value, ...way })
    else return { detail: `The ${titled(carrier.name)} header is empty.` }
  }
  return { naming, selecting, warning }
}

const UNKNOWN_SCHEME = 'The Authorization scheme is not known: the whole header tells callers apart. If it differs between retries of one caller, configure the scope of this route.'

/** The part of one Authorization line that counts. The kinds of lines cannot be confused: no scheme has a space or a parenthesis in it. */
function credentialValue (line: CredentialLine, { name }: Carrier, signing: Signing): string | { readonly detail: string } {
  const title = titled(name)
  switch (line.kind) {
    case 'token': return `${line.scheme} ${line.credentials}`
    case 'empty':
      return {
        detail: line.scheme === null
          ? `The ${title} header is empty.`
          : `The ${title} header has the scheme ${line.scheme} and no credential.`
      }
    case 'changing': return { detail: `The ${title} header (${line.scheme}) is new with every request and names nobody. ${CONFIGURE_PART}` }
    case 'signed': {
      if (signing === 'refused') return { detail: `The caller signs its request (${title}). ${CONFIGURE_SIGNING}` }
      if (line.id === null) {
        return { detail: `The ${title} header is a signature and has no key id that the gateway can read. ${CONFIGURE_PART}` }
      }
      return `(signed) ${framedDigest([line.scheme, ...line.id]).toString('base64url')}`
    }
  }
}

function rotatingAlone ({ name, what }: Carrier, signing: Signing): string {
  if (what === SIGNATURE && signing === 'by-key-id') {
    return `The request names its caller only by ${titled(name)} (${what}), in which the gateway can read no key id. ${CONFIGURE_VERIFYING}`
  }
  const named = `The request names its caller only by ${titled(name)} (${what}), which may change between retries.`
  if (what === SIGNATURE) return `${named} ${CONFIGURE_SIGNING}`
  return what === COOKIE ? `${named} ${CONFIGURE_COOKIE}` : `${named} ${CONFIGURE_PART}`
}

const PARTS = 'header:NAME, cookie:NAME or jwt:CLAIM ([public, header?:NAME] where some have none), or scope: shared if all callers may share their keys.'
const CONFIGURE_PART = `Configure the scope of this route: ${PARTS}`
const CONFIGURE_COOKIE = 'Configure the scope of this route: cookie:NAME if a cookie names the caller ([public, cookie?:NAME] where some have none), header:NAME, jwt:CLAIM, or scope: shared if all callers may share their keys.'
const CONFIGURE_VERIFYING = 'Its route has to say who may be answered: verify: with a scheme and its secret, where the gateway can check the signature; or another scope (scope: shared if all callers may share their keys).'
const CONFIGURE_SIGNING = 'Its route has to say how a replay is authorised: verify: with a scheme and its secret, where the gateway can check the signature; verify: by-key-id, where the public id of the key is enough; or another scope (scope: shared if all callers may share their keys).'
const CONFIGURE_PROXY =
  'the gateway takes that field away. Name the proxy that sets it in trustProxies, or configure the scope of this route.'

/** `who` '': the caller that the carriers name. */
function scopeNamed (who: '' | 'anonymous' | 'verified', carriers: readonly Named[]): { readonly kind: 'scope', readonly scope: string } {
  // Without carriers there is no digest, so nothing else can equal this scope.
  if (carriers.length === 0) return { kind: 'scope', scope: who }
  const sorted = inOrder(carriers)
  const framed: string[] = [...DOMAIN, who]
  for (const { name, value } of sorted) framed.push(name, value)
  return { kind: 'scope', scope: `${labelOf(who, sorted)}:${framedDigest(framed).toString('base64url')}` }
}

function inOrder<Line extends Pick<Named, 'name'>> (lines: readonly Line[]): readonly Line[] {
  return lines.length === 1 ? lines : lines.toSorted((one, other) => one.name < other.name ? -1 : 1)
}

function labelOf (who: string, sorted: ReadonlyArray<Pick<Named, 'name'>>): string {
  const names = sorted.slice(0, LABEL_NAMES_MAX).map(({ name }) => name)
  const more = sorted.length - names.length
  return [...who === '' ? [] : [who], ...names, ...more === 0 ? [] : [`+${more}`]].join(',')
}

/** x-api-key -> X-Api-Key, the usual spelling. */
function titled (name: string): string {
  return name.replace(/(?:^|[-_])[a-z]/g, (letter) => letter.toUpperCase())
}

function twoOf ({ name }: Carrier): string {
  return `The request has two ${titled(name)} headers; send one.`
}

function missing (detail: string): ScopeResult {
  return { kind: 'missing', detail }
}

function nothing (): readonly string[] { return [] }
