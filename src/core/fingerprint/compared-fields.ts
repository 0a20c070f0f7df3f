/**
 * Header fields that change the meaning of a request with the same method, target and body, and how they are read in one pass. Other fields
 * are not compared. Those that name the caller, the wanted answer (Accept) or the try change between retries, or do not change what is
 * done.
 */
import { plainName } from '../headers/fields.ts'
import { forwardedHosts, isForwardedHost } from '../headers/host.ts'
import { OVERRIDE_FIELDS } from '../headers/method-override.ts'
import { nameFilter } from '../headers/name-filter.ts'
import { operationPreferences } from '../headers/prefer.ts'
import type { RawHeaders } from '../record/record.ts'

export interface ComparedFields {
  /** The part of `fingerprint.of` that they belong to. */
  readonly part: 'method' | 'semantics'
  /** Why another value changes the meaning of the same bytes. */
  readonly why: string
  /** Lower case. */
  readonly names: readonly string[]
}

/**
 * Fixed with version 2 of the rules: one field more or less makes other fingerprints, and so needs another version. If an upgraded client
 * sends another version selector in its retry, it gets a 422, and nothing is executed twice.
 */
export const COMPARED_FIELDS: readonly ComparedFields[] = [
  { part: 'method', why: 'Frameworks read it in place of the method.', names: OVERRIDE_FIELDS },
  { part: 'semantics', why: 'How the bytes are decoded.', names: ['content-encoding', 'content-transfer-encoding', 'grpc-encoding'] },
  {
    part: 'semantics',
    why: 'Which part of a whole the bytes are, or how long the whole will be.',
    names: [
      'content-range', 'x-update-range', 'upload-offset', 'upload-length', 'upload-defer-length', 'upload-complete',
      'upload-concat', 'x-goog-upload-command', 'x-goog-upload-offset'
    ]
  },
  {
    part: 'semantics',
    why: 'The name under which the bytes are stored.',
    names: ['content-disposition', 'slug', 'link', 'upload-metadata']
  },
  {
    part: 'semantics',
    why: 'Which operation is meant, where one target serves several.',
    names: ['soapaction', 'x-amz-target', 'x-amz-invocation-type', 'ce-type', 'ce-source', 'ce-subject']
  },
  {
    part: 'semantics',
    why: 'What is copied or moved, and where to; the body is empty.',
    names: ['destination', 'depth', 'overwrite', 'lock-token', 'x-amz-copy-source', 'x-amz-copy-source-range', 'x-ms-copy-source']
  },
  { part: 'semantics', why: 'The condition of the operation.', names: ['if', 'if-match', 'if-none-match', 'if-unmodified-since'] },
  {
    part: 'semantics',
    why: 'How the operation is done (`tx=rollback`, `resolution=merge-duplicates`); preferences about the answer do not count.',
    names: ['prefer']
  },
  { part: 'semantics', why: 'Whether it is a dry run.', names: ['dry-run', 'x-dry-run'] },
  { part: 'semantics', why: 'The target, where servers read it from a header.', names: ['x-original-url', 'x-rewrite-url'] },
  {
    part: 'semantics',
    why: 'The target before a proxy rewrote it.',
    names: ['x-original-uri', 'x-forwarded-uri', 'x-forwarded-path', 'x-forwarded-prefix', 'x-replaced-path', 'x-envoy-original-path']
  },
  {
    part: 'semantics',
    why: 'The account, for callers with several.',
    names: [
      'stripe-account', 'stripe-context', 'openai-organization', 'openai-project', 'xero-tenant-id', 'x-tenant-id',
      'x-account-id', 'x-organization-id', 'impersonate-user'
    ]
  },
  {
    part: 'semantics',
    why: 'The API version by which the bytes are read.',
    names: [
      'api-version', 'x-api-version', 'accept-version', 'stripe-version', 'square-version', 'notion-version',
      'intercom-version', 'openai-version', 'openai-beta', 'anthropic-version', 'anthropic-beta',
      'x-github-api-version', 'x-ms-version', 'odata-version', 'revision'
    ]
  }
]

/** The parts of a value that are compared. A field without any part counts as absent. For other fields the value counts as it came. */
const MEMBERS: ReadonlyMap<string, (value: string) => readonly string[]> = new Map([
  ['content-encoding', codings],
  ['prefer', operationPreferences]
])

/** A line of a compared field. */
export interface ComparedLine {
  /** In lower case, otherwise as it came. Servers differ in whether they accept `X_Name`. */
  readonly name: string
  readonly value: string
}

export interface ComparedHead {
  /** The first line. null: none. */
  readonly contentType: string | null
  /** The authority that the client requested, as it came: `:authority` (HTTP/2), else Host. */
  readonly host: string | null
  /** The hosts that proxies report, as they came: frameworks believe them. */
  readonly forwardedHosts: readonly string[]
  /** In the order of the table. Lines of one field keep their order. */
  readonly overriding: readonly ComparedLine[]
  readonly semantics: readonly ComparedLine[]
}

/** One pass. Nothing is allocated for fields that are absent. */
export function comparedHead (raw: RawHeaders): ComparedHead {
  let contentType: string | null = null
  let host: string | null = null
  let authority: string | null = null
  let forwarded: string[] | null = null
  let found: FoundLine[] | null = null
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at] ?? ''
    const value = raw[at + 1] ?? ''
    if (!mayBeCompared(name)) continue
    const lower = name.toLowerCase()
    if (lower === 'content-type') contentType ??= value
    else if (lower === 'host') host ??= value
    else if (lower === ':authority') authority ??= value
    else if (isForwardedHost(lower)) (forwarded ??= []).push(...forwardedHosts(lower, value))
    else {
      const entry = ENTRIES.get(plainName(lower))
      if (entry !== undefined) (found ??= []).push(...linesOf(entry, lower, value))
    }
  }
  return {
    contentType,
    host: authority ?? host,
    forwardedHosts: forwarded ?? NO_HOSTS,
    overriding: ofPart(found, 'method'),
    semantics: ofPart(found, 'semantics')
  }
}

interface TableEntry { readonly plain: string, readonly order: number, readonly part: ComparedFields['part'] }
interface FoundLine extends ComparedLine { readonly entry: TableEntry }

const ENTRIES: ReadonlyMap<string, TableEntry> = new Map(COMPARED_FIELDS
  .flatMap(({ part, names }) => names.map((plain) => ({ plain, part })))
  .map((entry, order) => [entry.plain, { ...entry, order }]))

const NO_HOSTS: readonly string[] = []
const NO_LINES: readonly ComparedLine[] = []

function linesOf (entry: TableEntry, name: string, value: string): FoundLine[] {
  const members = MEMBERS.get(entry.plain)?.(value) ?? [value]
  return members.map((member) => ({ entry, name, value: member }))
}

function ofPart (found: readonly FoundLine[] | null, part: TableEntry['part']): readonly ComparedLine[] {
  if (found === null) return NO_LINES
  return found.filter(({ entry }) => entry.part === part).sort((one, other) => one.entry.order - other.entry.order)
}

/** The codings in one spelling (RFC 9110 8.4.1): `identity` is left out, and old names become the new ones. */
function codings (value: string): string[] {
  return value
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity')
    .map((coding) => coding === 'x-gzip' ? 'gzip' : coding === 'x-compress' ? 'compress' : coding)
}

const mayBeCompared = nameFilter([
  ...ENTRIES.keys(), 'content-type', 'host', ':authority', 'x-forwarded-host', 'x-original-host', 'forwarded'
])
