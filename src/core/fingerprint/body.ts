/** How a body is read for comparison. If it cannot be read as the policy says, it is read as bytes: always right, but less tolerant. */
import { canonicalJson, canonicalText, JSON_BYTES_MAX } from '../json/canonical.ts'
import { lookInto } from '../json/pointer.ts'
import type { Pointer, PointerTree } from '../json/pointer.ts'
import { isJson, mediaType } from '../headers/media-type.ts'
import { multipartParts } from './multipart.ts'
import type { FingerprintBody } from '../policy/policy.ts'

/** Their order is part of an algorithm's number. Append only. */
export const MODES = ['none', 'bytes', 'multipart', 'json'] as const
export type Mode = typeof MODES[number]

export interface Reading { readonly mode: Mode, readonly parts: ReadonlyArray<Buffer | string> }

/** Which members of a JSON document are compared. null: all of them. */
export type Members =
  | { readonly kind: 'ignore', readonly tree: PointerTree }
  | { readonly kind: 'only', readonly pointers: readonly Pointer[] }
  | null

/** A body with its declared type. */
export interface Content { readonly contentType: string | null, readonly body: Buffer }

export function readBody (content: Content, wished: FingerprintBody, members: Members): Reading {
  if (wished === 'none') return NO_BODY
  const read = wished === 'auto' ? readAs(content, 'multipart') : wished === 'json' ? readJson(content, members) : null
  return read ?? { mode: 'bytes', parts: [content.body] }
}

const NO_BODY: Reading = { mode: 'none', parts: [] }

/** null: it cannot be read in this mode. */
export function readAs (content: Content, mode: Mode): Reading | null {
  switch (mode) {
    case 'none': return NO_BODY
    case 'bytes': return { mode, parts: [content.body] }
    case 'multipart': {
      const parts = multipartParts(content.contentType, content.body)
      return parts === null ? null : { mode, parts }
    }
    case 'json': return readJson(content, null)
  }
}

function readJson ({ contentType, body }: Content, members: Members): Reading | null {
  if (!isJson(mediaType(contentType))) return null
  return members?.kind === 'only' ? readOnly(body, members.pointers) : readDocument(body, members?.tree ?? null)
}

function readDocument (body: Buffer, without: PointerTree | null): Reading | null {
  const text = canonicalJson(body, without)
  return text === null ? null : { mode: 'json', parts: [text] }
}

/**
 * For each pointer two parts: whether it leads to a value, and that value. A whole document has one part. If no pointer leads to a value,
 * the policy was written for another document, and the whole document is compared.
 */
function readOnly (body: Buffer, pointers: readonly Pointer[]): Reading | null {
  if (body.length > JSON_BYTES_MAX) return null
  const found = lookInto(body, pointers)
  if ('kind' in found || found.some(({ kind }) => kind === 'ambiguous')) return null
  if (found.every(({ kind }) => kind === 'none')) return readDocument(body, null)
  const parts: string[] = []
  for (const value of found) {
    const text = value.kind === 'value' ? canonicalText(value.source) : ''
    if (text === null) return null
    parts.push(value.kind, text)
  }
  return { mode: 'json', parts }
}
