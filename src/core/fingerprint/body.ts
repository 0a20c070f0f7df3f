/** How a body is read to be compared. What cannot be read as the policy wishes is read as bytes: always right, and only less forgiving. */
import { canonicalJson, canonicalText, JSON_BYTES_MAX } from '../json/canonical.ts'
import { lookInto } from '../json/pointer.ts'
import type { Pointer, PointerTree } from '../json/pointer.ts'
import { isJson, mediaType } from '../headers/media-type.ts'
import { multipartParts } from './multipart.ts'
import type { FingerprintBody } from '../policy/policy.ts'

/** Their order is part of an algorithm's number: append only. */
export const MODES = ['none', 'bytes', 'multipart', 'json'] as const
export type Mode = typeof MODES[number]

export interface Reading { readonly mode: Mode, readonly parts: ReadonlyArray<Buffer | string> }

/** Which members of a JSON document are compared; null: all of them. */
export type Members =
  | { readonly kind: 'ignore', readonly tree: PointerTree }
  | { readonly kind: 'only', readonly pointers: readonly Pointer[] }
  | null

/** A body with what it is said to be. */
export interface Content { readonly contentType: string | null, readonly body: Buffer }

export function readBody (content: Content, wished: FingerprintBody, members: Members): Reading {
  if (wished === 'none') return NO_BODY
  const read = wished === 'auto' ? readAs(content, 'multipart') : wished === 'json' ? readJson(content, members) : null
  return read ?? { mode: 'bytes', parts: [content.body] }
}

const NO_BODY: Reading = { mode: 'none', parts: [] }

/** null: it cannot be read so. */
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
 * For each pointer whether it leads to something, and what that is: two parts, where a whole document is one. If none of them
 * does, the document is another one than the policy was written for, and all of it is compared.
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
