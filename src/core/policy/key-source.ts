/**
 * A source of keys as a policy names it, what it reads and what it yields. Types only: sources.ts tries the sources,
 * values.ts reads their values.
 */
import type { Found, Pointer } from '../json/pointer.ts'
import type { RawHeaders } from '../record/record.ts'

export type KeySource =
  /** Lower case. The key as it comes, in either of its two spellings (key.ts). */
  | { readonly kind: 'header', readonly name: string }
  | { readonly kind: 'query', readonly name: string }
  | { readonly kind: 'json', readonly pointer: Pointer, readonly written: string }
  | { readonly kind: 'template', readonly parts: readonly KeyPart[] }
  | { readonly kind: 'hash', readonly of: 'body' | ReadonlyArray<{ readonly pointer: Pointer, readonly written: string }> }
  | { readonly kind: 'preset', readonly preset: Preset }

/** What is known of one sender: a row of presets.ts. */
export interface Preset {
  readonly name: string
  /** Tried in this order. One whose first part is not there is another sender's, or none. */
  readonly keys: readonly PresetKey[]
  /** For a route that says none: as it is written there. */
  readonly scope: string | readonly string[]
  /** For a route that says none. `target`: method, target and host; a delivery's body may differ from the last one's. */
  readonly fingerprint: 'profile' | 'target'
  /** The status of a key that was used for something else, where the sender has one of its own. */
  readonly mismatchStatus?: number
  /** What is not to be guarded though it comes on this route, and why, in a word for the metric. */
  readonly passes?: {
    /** Header fields that `ofHead` reads, in lower case. */
    readonly headers: readonly string[]
    readonly ofHead?: (input: KeyInput) => string | null
    readonly ofBody?: { readonly pointers: readonly Pointer[], readonly why: (values: Values, input: KeyInput) => string | null }
  }
}

export type PresetKey = Extract<KeySource, { kind: 'header' | 'json' | 'template' }> | CustomKey

/** A sender's own way of writing an identity. */
export interface CustomKey {
  readonly kind: 'custom'
  readonly pointers: readonly Pointer[]
  readonly needsBody: (input: KeyInput) => boolean
  /** Header fields that it reads, in lower case. */
  readonly headers: readonly string[]
  readonly find: (input: KeyInput, values: () => Values, windowMs: number) => SourcedKey
}

export type KeyPart =
  | { readonly kind: 'text', readonly text: string }
  | { readonly kind: 'header', readonly name: string }
  | { readonly kind: 'query', readonly name: string }
  | { readonly kind: 'path', readonly name: string }
  | { readonly kind: 'json', readonly pointer: Pointer, readonly written: string }
  /** The gateway's own, in UTC. */
  | { readonly kind: 'date', readonly by: 'day' | 'hour' }

/** What one source came to. */
export type SourcedKey =
  | MadeKey
  | { readonly kind: 'absent' }
  /** `detail`: one sentence for the client, without the key. */
  | InvalidKey
  /** What the key is to be made of is not there. `detail` names it, never its value. */
  | MissingKey
  /** First sent before anything that may still be remembered. */
  | { readonly kind: 'too-old', readonly detail: string }

/** What a key is looked for in, besides the body. */
export interface KeyInput {
  readonly rawHeaders: RawHeaders
  readonly target: string
  /** For `{path:…}`. */
  readonly match: { readonly path: string }
  readonly nowMs: () => number
}

/** By pointer: the body is searched once for all that any source asks of it. */
export type Values = ReadonlyMap<Pointer, Found>

export type Value =
  | { readonly kind: 'value', readonly text: string }
  | { readonly kind: 'none' }
  /** There, and of no use: a document, or too long, or there twice. */
  | { readonly kind: 'unfit', readonly why: string }

export interface MissingKey { readonly kind: 'missing', readonly detail: string }
export interface InvalidKey { readonly kind: 'invalid', readonly detail: string }
export interface MadeKey { readonly kind: 'key', readonly key: string }
