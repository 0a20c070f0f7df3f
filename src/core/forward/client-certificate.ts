/**
 * The caller that a verified client certificate names: for scopes as one text, for the upstream as X-Forwarded-Client-Cert. The
 * certificate's own key is not in the scope, so a renewed certificate is the same caller. Names alone would not do: of several
 * authorities, one could sign an issuer with the name of another's.
 */
import { framedDigest } from '../record/digest.ts'

export interface CertificateNames {
  /** SHA-256 of the certificate, in hex. */
  readonly fingerprint: string
  /** The public key of the root that vouches for the certificate. null: it was not found. */
  readonly authority: string | null
  /** As Node spells names: one attribute a line, and what would be ambiguous is escaped. null: there is none. */
  readonly issuer: string | null
  readonly subject: string | null
  readonly alternatives: string | null
}

/** RFC 5280 4.1.2.6: a subject is one entity among those of its issuer. SPIFFE has the entity in the alternative names alone. */
export function certificateIdentity ({ fingerprint, authority, issuer, subject, alternatives }: CertificateNames): string {
  const isNamed = subject !== null || alternatives !== null
  // Another certificate of the same caller is another caller then. Two callers in one scope would be worse.
  if (authority === null || issuer === null || !isNamed || isUnread(alternatives)) return identity('certificate', [fingerprint])
  return identity('names', [authority, issuer, subject ?? '', alternatives ?? ''])
}

/** Node writes `<unsupported>` for a kind of name that it cannot read, and `<invalid>` for a broken one. */
function isUnread (alternatives: string | null): boolean {
  return alternatives?.includes('<') === true
}

function identity (of: 'certificate' | 'names', parts: readonly string[]): string {
  return framedDigest(['client-certificate', of, ...parts]).toString('base64url')
}

/** A field of this size leaves room for others in an upstream's limit. */
const FIELD_CHARS_MAX = 4 * 1024

/** The value of X-Forwarded-Client-Cert: Envoy's `Hash`, `Subject`, `URI` and `DNS`. Names that do not fit are left out. */
export function forwardedCertificate ({ fingerprint, subject, alternatives }: CertificateNames): string {
  const pairs = [`Hash=${fingerprint}`]
  if (subject !== null) pairs.push(`Subject="${distinguishedName(subject)}"`)
  for (const [name, value] of alternatives === null ? [] : alternativeNames(alternatives)) pairs.push(`${name}="${value}"`)
  while (pairs.length > 1 && pairs.join(';').length > FIELD_CHARS_MAX) pairs.pop()
  return pairs.join(';')
}

/** RFC 4514, the last attribute first. Quotes and backslashes of a value are hex pairs, so that no reader ends the value early. */
function distinguishedName (lines: string): string {
  return lines.split('\n').reverse().join(',')
    .replaceAll('\\\\', '\\5C')
    .replaceAll('\\"', '\\22')
    .replace(/[^\x20-\x7e]/gu, (character) => Buffer.from(character).toString('hex').toUpperCase().replace(/../g, '\\$&'))
    .replaceAll('"', '\\22')
}

/** Node puts an unusual name in quotes. A certificate that has one shows none. */
function alternativeNames (text: string): Array<readonly [name: 'URI' | 'DNS', value: string]> {
  if (/["\\]|[^\x20-\x7e]/.test(text)) return []
  return text.split(', ').flatMap((each) => {
    const [, name, value = ''] = /^(URI|DNS):(.*)$/.exec(each) ?? []
    return name === 'URI' || name === 'DNS' ? [[name, value] as const] : []
  })
}
