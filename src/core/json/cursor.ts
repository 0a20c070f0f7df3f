/**
 * Reads a JSON text (RFC 8259) in one pass, builds nothing and keeps every byte. Values stay in the text, and the caller takes the text
 * between two positions.
 */

/** Far above any API's documents, and far below the stack's limit. */
export const DEPTH_MAX = 128

const SPACE = /[ \t\n\r]*/y
/** No character above it is space. */
const LAST_SPACE = 0x20
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const LITERAL = /true|false|null/y
// eslint-disable-next-line no-control-regex -- these may not stand in a string
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
/** A byte order mark is not JSON. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text is not JSON, or too deep. Ends a reading from any depth. */
export class NoJson extends Error {}
export class TooDeep extends NoJson {}

export class JsonCursor {
  readonly text: string
  /** Position in the text. */
  at: number
  #depth = 0

  constructor (text: string, at = 0) {
    this.text = text
    this.at = at
  }

  /** @throws NoJson */
  static of (body: Buffer): JsonCursor {
    try {
      return new JsonCursor(UTF8.decode(body))
    } catch {
      throw new NoJson()
    }
  }

  /** One value with the space around it, and nothing else. `read` starts at the value's first character. */
  document (read: () => void): void {
    this.#space()
    read()
    this.#space()
    if (this.at !== this.text.length) throw new NoJson()
  }

  /** The character at which a value begins. */
  peek (): string {
    return this.text.charAt(this.at)
  }

  /** Skips one value. */
  skip (): void {
    const first = this.peek()
    if (first === '{') this.members(null)
    else if (first === '[') this.items(null)
    else this.#must(first === '"' ? STRING : first === 't' || first === 'f' || first === 'n' ? LITERAL : NUMBER)
  }

  /** `each` gets the name of a member and reads its value. null: the members are skipped. */
  members (each: ((name: string) => void) | null): void {
    if (this.#opened('}')) return
    do {
      this.#space()
      const from = this.at
      this.#must(STRING)
      const to = this.at
      this.#space()
      if (this.text.charAt(this.at++) !== ':') throw new NoJson()
      this.#space()
      if (each === null) this.skip()
      else each(JSON.parse(this.text.slice(from, to)) as string)
    } while (this.#goesOn('}'))
  }

  /** `each` gets the index of an item and reads it. null: the items are skipped. */
  items (each: ((index: number) => void) | null): void {
    if (this.#opened(']')) return
    let index = 0
    do {
      this.#space()
      if (each === null) this.skip()
      else each(index++)
    } while (this.#goesOn(']'))
  }

  /** Goes behind the opening bracket. true: it closes at once. */
  #opened (closing: string): boolean {
    if (++this.#depth > DEPTH_MAX) throw new TooDeep()
    this.at++
    this.#space()
    if (this.peek() !== closing) return false
    this.at++
    this.#depth--
    return true
  }

  /** Goes behind a comma (true), or behind the closing bracket. */
  #goesOn (closing: string): boolean {
    this.#space()
    const char = this.text.charAt(this.at++)
    if (char === ',') return true
    if (char !== closing) throw new NoJson()
    this.#depth--
    return false
  }

  /** Usually there is no space. This runs several times per value. */
  #space (): void {
    if (!(this.text.charCodeAt(this.at) > LAST_SPACE)) this.#read(SPACE)
  }

  #read (pattern: RegExp): boolean {
    pattern.lastIndex = this.at
    if (!pattern.test(this.text)) return false
    this.at = pattern.lastIndex
    return true
  }

  #must (pattern: RegExp): void {
    if (!this.#read(pattern)) throw new NoJson()
  }
}
