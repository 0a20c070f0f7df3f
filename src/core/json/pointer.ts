/**
 * Values of a JSON text by their pointers (RFC 6901), as they are written there: every digit of an amount, every byte of a
 * part. One pass that builds nothing, because JSON.parse with what keeps digits takes seconds for a few mebibytes of zeros
 * (6.3 s for 8 MiB, Node 24.21), and forgets that a member was there twice. Never throws.
 */
import { DEPTH_MAX, JsonCursor, NoJson, TooDeep } from './cursor.ts'

/** The pointer's tokens, unescaped. */
export type Pointer = readonly string[]

/** What a pointer came to. */
export type Found =
  /** The value's own text. */
  | { readonly kind: 'value', readonly source: string }
  | { readonly kind: 'none' }
  /** A member on its way is there twice: readers differ in which of them they take. */
  | { readonly kind: 'ambiguous' }

/** Beyond any document's depth that somebody wrote a pointer for. */
const TOKENS_MAX = 32
/** Read in some tens of milliseconds, whatever is in it; a document beyond it has no values here. */
export const POINTED_BYTES_MAX = 1024 * 1024

/** null: no pointer (it begins with a slash, and ~ only stands before 0 or 1). The empty pointer, the whole text, is none here either. */
export function readPointer (text: string): Pointer | null {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return null
  const tokens = text.slice(1).split('/').map((token) => token.replaceAll('~1', '/').replaceAll('~0', '~'))
  return tokens.length > TOKENS_MAX ? null : tokens
}

/** Places in a document, step by step. `here`: one of the pointers ends. */
export interface PointerTree { readonly here: boolean, readonly below: ReadonlyMap<string, PointerTree> }

export function pointerTree (pointers: readonly Pointer[]): PointerTree {
  const steps = new Set(pointers.flatMap(([first]) => first === undefined ? [] : [first]))
  const behind = (step: string) => pointers.filter(([first]) => first === step).map((pointer) => pointer.slice(1))
  return {
    here: pointers.some(({ length }) => length === 0),
    below: new Map(Array.from(steps, (step) => [step, pointerTree(behind(step))]))
  }
}

/** A body that was not looked into; `why`: the rest of a sentence that begins with it. */
export interface Unread { readonly kind: 'unread', readonly why: string }

/** In the order of `pointers`. Nothing is found in what is no JSON, no UTF-8, too large or too deep. */
export function findValues (body: Buffer, pointers: readonly Pointer[]): Found[] {
  const found = lookInto(body, pointers)
  return 'kind' in found ? pointers.map(() => ({ kind: 'none' })) : found
}

/** The same, where it matters whether there is nothing, or nobody could tell. In an empty body there is nothing. */
export function lookInto (body: Buffer, pointers: readonly Pointer[]): Found[] | Unread {
  if (body.length === 0) return pointers.map(() => ({ kind: 'none' }))
  if (body.length > POINTED_BYTES_MAX) return { kind: 'unread', why: 'is larger than 1 MiB, and is not looked into' }
  try {
    return new Search(JsonCursor.of(body), pointers).document()
  } catch (error) {
    if (error instanceof TooDeep) return { kind: 'unread', why: `is nested deeper than ${DEPTH_MAX} levels, and is not looked into` }
    if (error instanceof NoJson) return { kind: 'unread', why: 'is no JSON in UTF-8' }
    throw error
  }
}

export function findValue (body: Buffer, pointer: Pointer): Found {
  return findValues(body, [pointer])[0] ?? { kind: 'none' }
}

/** A string, an integer or a boolean as text. null: a document, or a number that may be spelled in several ways (1.0, 1e3). */
export function scalarText (source: string): string | null {
  if (source.startsWith('"')) return JSON.parse(source) as string
  return source === 'true' || source === 'false' || INTEGER.test(source) ? source : null
}

const INTEGER = /^(?:0|-?[1-9][0-9]*)$/
const INDEX = /^(?:0|[1-9][0-9]*)$/

/** A pointer that has been followed so far: `token` is the next of its tokens. */
interface Trail { readonly number: number, readonly pointer: Pointer, readonly token: number }

class Search {
  readonly #cursor: JsonCursor
  readonly #pointers: readonly Pointer[]
  readonly #found: Found[]

  constructor (cursor: JsonCursor, pointers: readonly Pointer[]) {
    this.#cursor = cursor
    this.#pointers = pointers
    this.#found = pointers.map(() => ({ kind: 'none' }))
  }

  document (): Found[] {
    const trails = this.#pointers.map((pointer, number) => ({ number, pointer, token: 0 }))
    this.#cursor.document(() => { this.#value(trails) })
    return this.#found
  }

  /** `trails`: those that lead here. */
  #value (trails: readonly Trail[]): void {
    const from = this.#cursor.at
    const first = trails.length === 0 ? '' : this.#cursor.peek()
    if (first === '{') this.#members(trails)
    else if (first === '[') this.#items(trails)
    else this.#cursor.skip()
    for (const { number, pointer, token } of trails) {
      if (token === pointer.length && this.#found[number]?.kind === 'none') {
        this.#found[number] = { kind: 'value', source: this.#cursor.text.slice(from, this.#cursor.at) }
      }
    }
  }

  #members (trails: readonly Trail[]): void {
    const seen = new Set<string>()
    this.#cursor.members((name) => { this.#value(this.#follow(trails, name, seen)) })
  }

  #items (trails: readonly Trail[]): void {
    const wanted = trails.filter(({ pointer, token }) => INDEX.test(pointer[token] ?? ''))
    this.#cursor.items(wanted.length === 0
      ? null
      : (index) => { this.#value(wanted.filter(({ pointer, token }) => pointer[token] === String(index)).map(further)) })
  }

  /** Those whose next token is this member. One that was there before makes its trail ambiguous. */
  #follow (trails: readonly Trail[], name: string, seen: Set<string>): readonly Trail[] {
    const wanted = trails.filter(({ pointer, token }) => pointer[token] === name)
    if (wanted.length === 0) return NOWHERE
    if (!seen.has(name)) {
      seen.add(name)
      return wanted.map(further)
    }
    for (const { number } of wanted) this.#found[number] = { kind: 'ambiguous' }
    return NOWHERE
  }
}

const NOWHERE: readonly Trail[] = []

function further ({ number, pointer, token }: Trail): Trail {
  return { number, pointer, token: token + 1 }
}
