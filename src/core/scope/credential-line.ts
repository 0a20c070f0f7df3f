/**
 * One Authorization line by rules 2. A token is its caller. A signature is new with every request, and names its caller at most by a public
 * key id. A line that changes with every request names no caller. Nothing is verified here.
 */
import { parseParams } from './authorization.ts'
import { trimOws } from '../headers/lines.ts'

export type CredentialLine =
  /**
   * The same on every request of one caller. `scheme` in lower case, '' if there is none. `known`: whether the scheme is known. An unknown
   * one may change after all.
   */
  | { readonly kind: 'token', readonly scheme: string, readonly credentials: string, readonly known: boolean }
  /** `id`: the name of the key, null if it cannot be read. `scheme`: a word of this file, never the client's. */
  | { readonly kind: 'signed', readonly scheme: string, readonly id: readonly string[] | null }
  /** New with every request, with no stable part. */
  | { readonly kind: 'changing', readonly scheme: string }
  /** `scheme` null: the line is empty. */
  | { readonly kind: 'empty', readonly scheme: string | null }

export function readCredentialLine (line: string): CredentialLine {
  const value = trimOws(line)
  if (value === '') return { kind: 'empty', scheme: null }
  const space = value.search(/[ \t]/)
  const word = space < 0 ? value : value.slice(0, space)
  const scheme = word.toLowerCase()
  const credentials = space < 0 ? '' : trimOws(value.slice(space))
  if (TOKENS.has(scheme)) return credentials === '' ? { kind: 'empty', scheme } : { kind: 'token', scheme, credentials, known: true }
  const changing = CHANGING.exec(scheme)
  if (changing !== null) return { kind: 'changing', scheme: changing[0] }
  const signing = SIGNING.find(({ named }) => named.test(scheme))
  if (signing !== undefined) return signed(signing, word, credentials)
  if (LIKE_SIGNING.test(scheme) || SIGNATURE_PARAM.test(credentials)) return { kind: 'signed', scheme: 'unknown', id: null }
  // Without a scheme the whole line is a token, and tokens are case-sensitive.
  return space < 0 || !SCHEME.test(word)
    ? { kind: 'token', scheme: '', credentials: value, known: false }
    : { kind: 'token', scheme, credentials, known: false }
}

/** RFC 9110 5.6.2: other text is no scheme, and cannot equal a scheme's name. */
const SCHEME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/

/** Schemes of tokens, keys and passwords. */
const TOKENS: ReadonlySet<string> = new Set([
  'bearer', 'basic', 'dpop', 'gnap', 'token', 'jwt', 'key', 'apikey', 'api-key', 'api-token', 'apitoken', 'accesskey', 'access-token',
  'bot', 'ssws', 'sso-key', 'geniekey', 'klaviyo-api-key', 'zoho-oauthtoken', 'splunk'
])

/** Schemes of a handshake, of a one-time token, or of a proof over this request. */
const CHANGING = /^(?:negotiate|ntlm|kerberos|privatetoken|nostr|hoba|mutual|concealed|sapisidhash|qcloud|scram-sha-(?:1|256|512))$/

interface SigningScheme {
  readonly named: RegExp
  readonly label: string
  /** `word`: the scheme as it was sent. */
  readonly id: (credentials: string, word: string) => readonly string[] | null
  /** Whether these credentials are a plain token although they have the scheme's name. */
  readonly isToken?: (credentials: string) => boolean
}

const SIGNING: readonly SigningScheme[] = [
  // Credential=<access key id>/<date>/<region>/…, and the date changes at midnight.
  { named: /^aws4-/, label: 'AWS4', id: params(['credential'], firstSegment) },
  { named: /^goog4-/, label: 'GOOG4', id: params(['credential'], firstSegment) },
  { named: /^(?:oss4|acs3|tc3)-/, label: 'HMAC', id: params(['credential'], firstSegment) },
  { named: /^sdk-hmac-/, label: 'SDK-HMAC', id: params(['access']) },
  { named: /^eg1-hmac-/, label: 'EG1-HMAC', id: separated(';', ['client_token', 'access_token']) },
  { named: /^hmac-/, label: 'HMAC', id: separated('&', ['credential']) },
  {
    named: /^hmac$/,
    label: 'HMAC',
    id: (credentials) => params(['username'])(credentials) ?? params(['id'])(credentials) ?? beforeColon(credentials)
  },
  {
    named: /^(?:aws|goog1|oss|obs|qbox|qiniu|mws|cws|acs|amx|kss|qs|ucloud|log|mns|fc|odps|nos|upyun|vws|kso-1)$/,
    label: 'AWS',
    id: beforeColon
  },
  // v1HMAC:<key id>:<signature>
  { named: /^gcs$/, label: 'GCS', id: (credentials) => idOf([credentials.split(':')[1]]) },
  { named: /^apiauth(?:-|$)/, label: 'APIAuth', id: beforeColon },
  { named: /^sharedkey$/, label: 'SharedKey', id: beforeColon },
  { named: /^sharedkeylite$/, label: 'SharedKeyLite', id: beforeColon },
  { named: /^signature$/, label: 'Signature', id: params(['keyid']) },
  { named: /^hawk$/, label: 'Hawk', id: params(['id']) },
  { named: /^mac$/, label: 'MAC', id: params(['id']) },
  { named: /^digest$/, label: 'Digest', id: params(['username', 'realm']) },
  { named: /^oauth$/, label: 'OAuth', id: params(['oauth_consumer_key', 'oauth_token']), isToken: isPlainToken },
  { named: /^acquia-http-hmac$/, label: 'acquia-http-hmac', id: params(['id', 'realm']) },
  { named: /^wechatpay2-/, label: 'WECHATPAY2', id: params(['mchid', 'serial_no']) },
  { named: /^alipay-/, label: 'ALIPAY', id: params(['app_id']) },
  // The caller's name is in X-WSSE.
  { named: /^wsse$/, label: 'WSSE', id: () => null },
  { named: /^vapid$/, label: 'vapid', id: params(['k']) },
  // bce-auth-v1/<access key id>/<time>/…: the whole value is one word.
  { named: /^bce-auth-v/, label: 'bce-auth', id: (_credentials, word) => idOf([word.split('/')[1]]) }
]

/** Names and parameters that only signatures have. An unknown signature is refused with a hint. Otherwise it would count as a token. */
const LIKE_SIGNING = /%26sig%3d|hmac|sha(?:1|256|384|512)|signature|(?:^|[-_])sign(?:ed)?(?:[-_]|$)/
const SIGNATURE_PARAM = /(?:^|[\s,;&])(?:signature|sig|mac|hmac)[ \t]*=/i

function signed ({ label, id, isToken }: SigningScheme, word: string, credentials: string): CredentialLine {
  if (isToken?.(credentials) === true) return { kind: 'token', scheme: word.toLowerCase(), credentials, known: true }
  return { kind: 'signed', scheme: label, id: id(credentials, word) }
}

/** `OAuth <token>`, as some APIs use it, unlike the parameters of OAuth 1.0. RFC 9110 11.2: token68. */
function isPlainToken (credentials: string): boolean {
  return credentials !== '' && (!credentials.includes('=') || /^[A-Za-z0-9._~+/-]+=*$/.test(credentials))
}

/** The first name must be there. The others narrow it down, if they are there. */
function params (
  names: readonly string[],
  cut: (value: string) => string = (value) => value
): (credentials: string) => readonly string[] | null {
  return (credentials) => {
    const found = parseParams(credentials)
    return found === null ? null : idOf(names.map((name) => found.get(name)), cut)
  }
}

/** name=value between one separator, unquoted. */
function separated (separator: string, names: readonly string[]): (credentials: string) => readonly string[] | null {
  return (credentials) => {
    const found = new Map<string, string>()
    for (const pair of credentials.split(separator)) {
      const equals = pair.indexOf('=')
      const name = pair.slice(0, Math.max(0, equals)).trim().toLowerCase()
      if (found.has(name) && name !== '') return null
      found.set(name, pair.slice(equals + 1).trim())
    }
    return idOf(names.map((name) => found.get(name)))
  }
}

/** <key id>:<signature> */
function beforeColon (credentials: string): readonly string[] | null {
  const colon = credentials.indexOf(':')
  return colon < 0 ? null : idOf([trimOws(credentials.slice(0, colon))])
}

function firstSegment (value: string): string {
  return value.split('/', 1)[0] ?? ''
}

function idOf (values: ReadonlyArray<string | undefined>, cut: (value: string) => string = (value) => value): readonly string[] | null {
  const [first, ...others] = values.map((value) => value === undefined ? '' : cut(value))
  return first === undefined || first === '' ? null : [first, ...others]
}
