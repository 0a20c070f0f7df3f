/**
 * Values of a JSON text by their pointers (RFC 6901), as they are written there: every digit of an amount, every byte of a
 * part. One pass that builds nothing, because JSON.parse with what keeps digits takes seconds for a few mebibytes of zeros
 * (6.3 s for 8 MiB, Node 24.21), and forgets that a member was there twice. Never throws.
 */

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
/** Far beyond any API's documents, far below the stack. */
const DEPTH_MAX = 128

/** null: no pointer (it begins with a slash, and ~ only stands before 0 or 1). The empty pointer, the whole text, is none here either. */
export function readPointer (text: string): Pointer | null {
  if (!text.startsWith('/') || /~(?![01])/.test(text)) return null
  const tokens = text.slice(1).split('/').map(token => token.replaceAll('~1', '/').replaceAll('~0', '~'))
  return tokens.length > TOKENS_MAX ? null : tokens
}

/** In the order of `pointers`. Nothing is found in what is no JSON, no UTF-8, too large or too deep. */
export function findValues (body: Buffer, pointers: readonly Pointer[]): Found[] {
  const nothing = (): Found[] => pointers.map(() => ({ kind: 'none' }))
  if (body.length === 0 || body.length > POINTED_BYTES_MAX) return nothing()
  try {
    return new Search(UTF8.decode(body), pointers).document() ?? nothing()
  } catch {
    // Not UTF-8, or a string with an escape that is none.
    return nothing()
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
/** A byte order mark is no JSON. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

const SPACE = /[ \t\n\r]*/y
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const LITERAL = /true|false|null/y
// eslint-disable-next-line no-control-regex -- these may not stand in a string
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
const INDEX = /^(?:0|[1-9][0-9]*)$/

/** Leaves the search from any depth; never leaves this file. */
class NoJson extends Error {}

/** A pointer that has been followed so far: `token` is the next of its tokens. */
interface Trail { readonly number: number, readonly pointer: Pointer, readonly token: number }

class Search {
  readonly #text: string
  readonly #pointers: readonly Pointer[]
  readonly #found: Found[]
  #at = 0
  #depth = 0

  constructor (text: string, pointers: readonly Pointer[]) {
    this.#text = text
    this.#pointers = pointers
    this.#found = pointers.map(() => ({ kind: 'none' }))
  }

  /** null: no JSON. */
  document (): Found[] | null {
    try {
      this.#value(this.#pointers.map((pointer, number) => ({ number, pointer, token: 0 })))
      return this.#at === this.#text.length ? this.#found : null
    } catch (error) {
      if (error instanceof NoJson) return null
      throw error
    }
  }

  /** A value with the space around it. `trails`: those that lead here. */
  #value (trails: readonly Trail[]): void {
    this.#read(SPACE)
    const from = this.#at
    const first = this.#text.charAt(from)
    if (first === '{' || first === '[') {
      if (++this.#depth > DEPTH_MAX) throw new NoJson()
      if (first === '{') this.#members(trails)
      else this.#items(trails)
      this.#depth--
    } else {
      this.#must(first === '"' ? STRING : first === 't' || first === 'f' || first === 'n' ? LITERAL : NUMBER)
    }
    for (const { number, pointer, token } of trails) {
      if (token === pointer.length && this.#found[number]?.kind === 'none') this.#found[number] = { kind: 'value', source: this.#text.slice(from, this.#at) }
    }
    this.#read(SPACE)
  }

  #members (trails: readonly Trail[]): void {
    const seen = trails.length === 0 ? null : new Set<string>()
    if (this.#opened('}')) return
    do {
      this.#read(SPACE)
      const from = this.#at
      this.#must(STRING)
      const name = seen === null ? '' : JSON.parse(this.#text.slice(from, this.#at)) as string
      this.#read(SPACE)
      if (this.#text.charAt(this.#at++) !== ':') throw new NoJson()
      const further = seen === null ? NOWHERE : this.#follow(trails, name, seen)
      this.#value(further)
    } while (this.#next('}'))
  }

  #items (trails: readonly Trail[]): void {
    if (this.#opened(']')) return
    const wanted = trails.filter(({ pointer, token }) => INDEX.test(pointer[token] ?? ''))
    for (let index = 0; ; index++) {
      this.#value(wanted.length === 0 ? NOWHERE : wanted.filter(({ pointer, token }) => pointer[token] === String(index)).map(further))
      if (!this.#next(']')) return
    }
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

  /** Behind the bracket that opens; true: it closes at once. */
  #opened (closing: string): boolean {
    this.#at++
    this.#read(SPACE)
    if (this.#text.charAt(this.#at) !== closing) return false
    this.#at++
    return true
  }

  /** Behind a comma (true), or behind the bracket that closes. */
  #next (closing: string): boolean {
    const char = this.#text.charAt(this.#at++)
    if (char !== ',' && char !== closing) throw new NoJson()
    return char === ','
  }

  #read (pattern: RegExp): boolean {
    pattern.lastIndex = this.#at
    if (!pattern.test(this.#text)) return false
    this.#at = pattern.lastIndex
    return true
  }

  #must (pattern: RegExp): void {
    if (!this.#read(pattern)) throw new NoJson()
  }
}

const NOWHERE: readonly Trail[] = []

function further ({ number, pointer, token }: Trail): Trail {
  return { number, pointer, token: token + 1 }
}
