/**
 * A source of keys as a policy names it, what it reads and what it yields. Types only. sources.ts tries the sources, and values.ts reads
 * their values.
 */
import type { Found, Pointer } from '../json/pointer.ts'
import type { RawHeaders } from '../record/record.ts'

export type KeySource =
  /** Lower case. The key in either of its two spellings (key.ts). */
  | { readonly kind: 'header', readonly name: string }
  | { readonly kind: 'query', readonly name: string }
  | { readonly kind: 'json', readonly pointer: Pointer, readonly written: string }
  | { readonly kind: 'template', readonly parts: readonly KeyPart[] }
  | { readonly kind: 'hash', readonly of: 'body' | ReadonlyArray<{ readonly pointer: Pointer, readonly written: string }> }
  | { readonly kind: 'preset', readonly preset: Preset }

/** The facts about one sender: a row of presets.ts. */
export interface Preset {
  readonly name: string
  /** Tried in this order. If the first part of a key is absent, the request is from another sender, or from none. */
  readonly keys: readonly PresetKey[]
  /** Default for a route without a scope, as the configuration spells it. */
  readonly scope: string | readonly string[]
  /** Default for a route without a fingerprint. `target`: method, target and host. A delivery's body may differ from the last one's. */
  readonly fingerprint: 'profile' | 'target'
  /** The status for a reused key, if the sender has one of its own. */
  readonly mismatchStatus?: number
  /** Requests on this route that are not guarded. The functions return the reason, in a word for the metric. */
  readonly passes?: {
    /** Header fields that `ofHead` reads, in lower case. */
    readonly headers: readonly string[]
    readonly ofHead?: (input: KeyInput) => string | null
    readonly ofBody?: { readonly pointers: readonly Pointer[], readonly why: (values: Values, input: KeyInput) => string | null }
  }
}

export type PresetKey = Extract<KeySource, { kind: 'header' | 'json' | 'template' }> | CustomKey

/** A key that the preset reads with its own code. */
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
  /** The gateway's own date, in UTC. */
  | { readonly kind: 'date', readonly by: 'day' | 'hour' }

/** The result of one source. */
export type SourcedKey =
  | MadeKey
  | { readonly kind: 'absent' }
  /** `detail`: one sentence for the client, without the key. */
  | InvalidKey
  /** A part of the key is absent. `detail` names the part, never its value. */
  | MissingKey
  /** First sent before the oldest record that may still be kept. */
  | { readonly kind: 'too-old', readonly detail: string }

/** What a key is read from, besides the body. */
export interface KeyInput {
  readonly rawHeaders: RawHeaders
  readonly target: string
  /** For `{path:…}`. */
  readonly match: { readonly path: string }
  readonly nowMs: () => number
}

/** By pointer. The body is searched once for all sources. */
export type Values = ReadonlyMap<Pointer, Found>

export type Value =
  | { readonly kind: 'value', readonly text: string }
  | { readonly kind: 'none' }
  /** Present but unusable: a document, too long, or repeated. */
  | { readonly kind: 'unfit', readonly why: string }

export interface MissingKey { readonly kind: 'missing', readonly detail: string }
export interface InvalidKey { readonly kind: 'invalid', readonly detail: string }
export interface MadeKey { readonly kind: 'key', readonly key: string }
