/**
 * The format of `admin.auth.tokensFile`: `NAME ROLE sha256:HEX` on each line, and `#` comments. The file has hashes alone, so whoever reads
 * it cannot sign in.
 */
import { createHash } from 'node:crypto'
import { ROLES } from '../core/operator/roles.ts'
import type { Role } from '../core/operator/roles.ts'
import { didYouMean } from './read/nearest.ts'

export interface TokenEntry {
  readonly name: string
  readonly role: Role
  /** SHA-256 of the token. */
  readonly hash: Buffer
}

/** The name of `admin.token` in the audit. No entry of a file may have it. */
export const ADMIN_TOKEN_NAME = 'admin.token'

/** Names that the gateway itself writes into the audit or shows as an identity: what each stands for. */
const RESERVED: ReadonlyMap<string, string> = new Map([
  [ADMIN_TOKEN_NAME, 'the token in the configuration'],
  ['probe', 'what a probe of the upstream has found'],
  ['loopback', 'whoever uses the admin port on this machine without a sign-in']
])

/** A token is compared with every entry, so that the time of the comparison says nothing. This many take a tenth of a millisecond. */
const ENTRIES_MAX = 1000
/** Room for the most entries, with a comment for each. */
export const TOKENS_FILE_BYTES_MAX = 512 * 1024

const NAME = /^[A-Za-z0-9._@-]{1,128}$/
const HASH = /^sha256:([0-9a-f]{64})$/

/** Why a name cannot be that of an entry. null: it can. */
export function wrongTokenName (name: string): string | null {
  if (!NAME.test(name)) return 'a name has 1 to 128 letters, digits and . _ @ -'
  const meaning = RESERVED.get(name)
  return meaning === undefined ? null : `the name ${name} is reserved for ${meaning}`
}

export function hashOf (token: string): Buffer {
  return createHash('sha256').update(token).digest()
}

/** As `onceway token` makes them: 256 random bits, so that no number of tries finds one. A chosen password is none of them. */
export function isRandomToken (token: string): boolean {
  return /^ow_[A-Za-z0-9_-]{43}$/.test(token)
}

/** The line of an entry. */
export function tokenLine ({ name, role, hash }: TokenEntry): string {
  return `${name} ${role} sha256:${hash.toString('hex')}`
}

/** The entries of a file, or what is wrong with it. No message shows a word of the file: any of them may be a token in the wrong place. */
export function parseTokens (text: string): { readonly entries: readonly TokenEntry[] } | { readonly wrong: string } {
  const entries = new Map<string, TokenEntry>()
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const words = line.replace(/#.*$/, '').trim()
    if (words === '') continue
    const entry = parseLine(words)
    if ('wrong' in entry) return { wrong: `line ${index + 1}: ${entry.wrong}` }
    const hash = entry.hash.toString('hex')
    if (entries.has(hash)) return { wrong: `line ${index + 1}: its hash is in an earlier line too` }
    if (entries.size === ENTRIES_MAX) return { wrong: `it has more than ${ENTRIES_MAX} entries` }
    entries.set(hash, entry)
  }
  return { entries: [...entries.values()] }
}

function parseLine (line: string): TokenEntry | { readonly wrong: string } {
  const [name = '', role = '', hashText = '', ...more] = line.split(/[ \t]+/)
  const wrongName = wrongTokenName(name)
  if (wrongName !== null) return { wrong: wrongName }
  const known = ROLES.find((each) => each === role)
  if (known === undefined) return { wrong: `its role is none of ${ROLES.join(', ')}${didYouMean(role, ROLES)}` }
  const [, hex] = HASH.exec(hashText.toLowerCase()) ?? []
  if (hex === undefined || more.length > 0) return { wrong: 'it must end with sha256: and 64 hex digits' }
  return { name, role: known, hash: Buffer.from(hex, 'hex') }
}
