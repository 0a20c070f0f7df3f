/**
 * Values of header fields that name somebody, each with what it may be to the same caller another time, and what is another
 * caller's. Made from how they are put together; nothing here reads one.
 */
import type { Random } from '../chaos/random.ts'

export interface Value {
  readonly text: string
  /** The same caller's, written or made anew. */
  readonly again: (random: Random) => Value
  /** Somebody else's, mostly almost the same. */
  readonly other: (random: Random) => Value
  /** Every text of one character and more is one: it may be cut, and stand under another name. */
  readonly plain: boolean
}

const DIGITS = 8

export function hex (random: Random, least: number, most: number): string {
  const length = random.between(least, most)
  let text = ''
  while (text.length < length) text += Math.floor(random.float() * 16 ** DIGITS).toString(16).padStart(DIGITS, '0')
  return text.slice(0, length)
}

/** What stands in such fields, and what looks like the beginning of another one. */
const SHAPES: ReadonlyArray<(random: Random) => string> = [
  (random) => hex(random, 1, 3),
  (random) => hex(random, 8, 16),
  (random) => `${hex(random, 1, 4)}@example.com`,
  (random) => `user ${hex(random, 1, 2)}`,
  (random) => `acct_${hex(random, 4, 8)}`,
  (random) => `CN=${hex(random, 1, 4)},O=Example; Subject="x"`,
  (random) => `x-api-key:${hex(random, 1, 2)}`,
  (random) => `Bearer ${hex(random, 4, 8)}`,
  (random) => `${hex(random, 1, 2)}, ${hex(random, 1, 2)}`,
  (random) => `${hex(random, 4, 4)}-A`,
  (random) => `ZÜRICH-${hex(random, 1, 2)}`,
  (random) => String(random.between(0, 99)),
  (random) => hex(random, 8, 16).repeat(20)
]

/** Almost the same, and another text. */
const NEIGHBOURS: ReadonlyArray<(text: string, random: Random) => string> = [
  (text) => `${text}x`,
  (text) => `x${text}`,
  (text) => text.slice(0, -1),
  (text) => text.slice(1),
  (text) => text.toUpperCase(),
  (text) => text.toLowerCase(),
  (text) => `${text},${text}`,
  (text) => text.replace(' ', '  '),
  (text) => text.replace('-', '_'),
  (text) => `"${text}"`,
  // The end of many letters in UTF-8: no space to whoever reads bytes.
  (text) => `${text}\xa0`,
  (text) => `\xa0${text}`,
  (_, random) => hex(random, 2, 12)
]

/** Space and tab are optional around a value (RFC 9110 5.6.3), and nothing else is. */
export function bare (text: string): string {
  return text.replace(/^[ \t]+|[ \t]+$/g, '')
}

/** Another text than this one, without a space around it and never empty. */
export function neighbour (random: Random, text: string): string {
  for (;;) {
    const other = bare(random.pick(NEIGHBOURS)(text, random))
    if (other !== '' && other !== text) return other
  }
}

export function plain (text: string): Value {
  return { text, plain: true, again: () => plain(text), other: (random) => plain(neighbour(random, text)) }
}

export function drawPlain (random: Random): Value {
  return plain(random.pick(SHAPES)(random))
}

/** A field that a proxy has left empty: nobody. */
export const NOBODY: Value = { text: '', plain: false, again: () => NOBODY, other: drawPlain }

/** Whatever it is, it is none of the caller's identity. */
export function changing (text: string): Value {
  const other = (random: Random): Value => changing(random.chance(0.1) ? '' : hex(random, 1, 20))
  return { text, plain: false, again: (random) => random.chance(0.3) ? changing(text) : other(random), other }
}

// ---------------------------------------------------------------- a scheme and a token

const SCHEMES = [
  'Bearer', 'Basic', 'DPoP', 'GNAP', 'Token', 'JWT', 'Key', 'ApiKey', 'Api-Key', 'Api-Token', 'apitoken', 'AccessKey',
  'Access-Token', 'Bot', 'SSWS', 'sso-key', 'GenieKey',
  'Klaviyo-API-Key', 'Zoho-oauthtoken', 'Splunk', 'OAuth', 'Acme', 'Custom'
] as const

/** Schemes have no case, and any number of spaces behind them; what follows has its case, and so has a token without a scheme. */
function token (scheme: string, credentials: string): Value {
  const written = (text: string): Value => ({
    text,
    plain: false,
    again: (random) =>
      scheme === '' ? written(credentials) : written(`${cased(random, scheme)}${random.pick([' ', '  ', ' \t '])}${credentials}`),
    other: (random) => otherToken(random, scheme, credentials)
  })
  return written(scheme === '' ? credentials : `${scheme} ${credentials}`)
}

function otherToken (random: Random, scheme: string, credentials: string): Value {
  if (scheme === '' || random.chance(0.7)) {
    return token(
      scheme,
      random.pick(
        [`${credentials}0`, `${credentials}\xa0`, `0${credentials}`, credentials.toUpperCase(), hex(random, 6, 20)].filter((text) =>
          text !== credentials)
      )
    )
  }
  return token(random.pick(SCHEMES.filter((other) => other !== scheme)), credentials)
}

export function drawToken (random: Random): Value {
  return token(random.chance(0.07) ? '' : random.pick(SCHEMES), `${random.pick(['', 'a.b-', 'T_'])}${hex(random, 5, 24)}`)
}

export function basic (random: Random): Value {
  return { ...token('Basic', hex(random, 6, 12)), other: () => basic(random) }
}

export function cased (random: Random, text: string): string {
  switch (random.between(0, 3)) {
    case 0: return text
    case 1: return text.toLowerCase()
    case 2: return text.toUpperCase()
    default: return Array.from(text, (letter) => random.chance(0.5) ? letter.toUpperCase() : letter.toLowerCase()).join('')
  }
}

// ---------------------------------------------------------------- a signature with the public id of a key

/** `id` names the signer, `anew` is another one with every request. `first`: the first rules knew its id, too. */
interface Signing { readonly first: boolean, readonly write: (id: string, anew: string) => string }

const SIGNING: readonly Signing[] = [
  { first: true, write: (id, anew) => `AWS4-HMAC-SHA256 Credential=${id}/2026${anew.slice(0, 4)}/eu/s3/aws4_request, SignedHeaders=host, Signature=${anew}` },
  { first: true, write: (id, anew) => `Signature keyId="${id}",algorithm="hs2019",signature="${anew}=="` },
  { first: true, write: (id, anew) => `Hawk id="${id}", ts="1", nonce="${anew}", mac="${anew}"` },
  { first: true, write: (id, anew) => `Digest username="${id}", realm="r", response="${anew}"` },
  { first: true, write: (id, anew) => `OAuth oauth_consumer_key="${id}", oauth_token="t", oauth_nonce="${anew}"` },
  { first: false, write: (id, anew) => `GOOG4-RSA-SHA256 Credential=${id}/2026/auto/storage/goog4_request, Signature=${anew}` },
  { first: false, write: (id, anew) => `AWS ${id}:${anew}` },
  { first: false, write: (id, anew) => `SharedKey ${id}:${anew}` },
  { first: false, write: (id, anew) => `SharedKeyLite ${id}:${anew}` },
  { first: false, write: (id, anew) => `HMAC-SHA256 Credential=${id}&SignedHeaders=host&Signature=${anew}` },
  { first: false, write: (id, anew) => `EG1-HMAC-SHA256 client_token=${id};access_token=a;nonce=${anew};signature=${anew}` },
  { first: false, write: (id, anew) => `hmac username="${id}", algorithm="hmac-sha256", signature="${anew}"` },
  { first: false, write: (id, anew) => `acquia-http-hmac id="${id}",realm="r",nonce="${anew}",signature="${anew}"` },
  { first: false, write: (id, anew) => `bce-auth-v1/${id}/2026-01-01/1800/host/${anew}` }
]

export function drawSigned (random: Random, firstRules: boolean): Value {
  return signed(random.pick(SIGNING.filter(({ first }) => first || !firstRules)), `AK${hex(random, 4, 10)}`, hex(random, 8, 12))
}

function signed (by: Signing, id: string, anew: string): Value {
  return {
    text: by.write(id, anew),
    plain: false,
    again: (random) => signed(by, id, hex(random, 8, 12)),
    other: (random) => signed(
      by,
      random.pick([`${id}0`, id.slice(0, -1), id.toLowerCase(), `AK${hex(random, 12, 14)}`]),
      random.chance(0.5) ? anew : hex(random, 8, 12)
    )
  }
}

/** New with every request, whoever sends it. */
export const HANDSHAKES = [
  'Negotiate YII0', 'NTLM TlRM', 'Kerberos abc', 'PrivateToken token="x"', 'SCRAM-SHA-256 data=x',
  'HOBA result="a.b.c"'
] as const
/** Signatures without a key id that anybody could read. */
export const UNREADABLE = [
  'Signature signature="a"', 'Hawk mac="x"', 'AWS4-HMAC-SHA256 Signature=aa', 'SharedKey account',
  'Acme-HMAC-SHA256 abc', 'Acme id=1,signature=abc', 'Digest realm="r"'
] as const

// ---------------------------------------------------------------- a token of claims

export interface Claim { readonly sub?: string | number }

/** What {@link verifyToken} takes: signed by nobody, since nobody here has to be convinced. */
export function writeToken (claim: Claim, anew: string): string {
  return `${Buffer.from(JSON.stringify({ ...claim, jti: anew })).toString('base64url')}.good`
}

export const EXPIRED_TOKEN = 'Bearer e30.expired'

/** `renewed`: another token of the same subject is the same caller's; not where the token itself counts beside it. */
export function jwt (random: Random, claim: Claim, renewed: boolean): Value {
  const written = (text: string): Value => ({
    text: `Bearer ${text}`,
    plain: false,
    again: (chance) => {
      const next = renewed ? writeToken(claim, hex(chance, 4, 8)) : text
      return { ...written(next), text: `${cased(chance, 'Bearer')}${chance.pick([' ', '  '])}${next}` }
    },
    other: (chance) => jwt(chance, otherClaim(chance, claim), renewed)
  })
  return written(writeToken(claim, hex(random, 4, 8)))
}

export function drawClaim (random: Random): Claim {
  return { sub: random.pick([random.between(1, 99), String(random.between(1, 99)), `user-${hex(random, 1, 4)}`]) }
}

/** A number and its text are two subjects. */
function otherClaim (random: Random, { sub }: Claim): Claim {
  if (sub === undefined) return drawClaim(random)
  if (typeof sub === 'number') return { sub: random.chance(0.5) ? String(sub) : sub + 1 }
  return { sub: /^\d+$/.test(sub) && random.chance(0.5) ? Number(sub) : neighbour(random, sub) }
}

// ---------------------------------------------------------------- a cookie

/** `sid` null: it has none, and others. */
export function cookie (random: Random, sid: string | null, optional: boolean): Value {
  const others = random.shuffled(['theme=dark', `_ga=${hex(random, 4, 8)}`, 'SID=upper', `xsid=${hex(random, 1, 3)}`]).slice(
    0,
    random.between(sid === null ? 1 : 0, 3)
  )
  const pairs = random.shuffled([...others, ...sid === null ? [] : [`sid=${sid}`]])
  return {
    text: pairs.join(random.chance(0.8) ? '; ' : ' ;  '),
    plain: false,
    again: (chance) => cookie(chance, sid, optional),
    other: (chance) => cookie(chance, otherSid(chance, sid, optional), optional)
  }
}

function otherSid (random: Random, sid: string | null, optional: boolean): string | null {
  if (sid === null) return hex(random, 2, 8)
  if (optional && random.chance(0.3)) return null
  if (optional && sid !== '' && random.chance(0.1)) return ''
  return random.pick([`${sid}0`, `${sid}\xa0`, `"${sid}"`, hex(random, 9, 12)])
}
