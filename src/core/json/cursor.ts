/**
 * Reading a JSON text (RFC 8259) in one pass that builds nothing and keeps every byte: values stay where they are written,
 * and whoever reads takes the text between two places.
 */

/** Far beyond any API's documents, far below the stack. */
export const DEPTH_MAX = 128

const SPACE = /[ \t\n\r]*/y
/** No character beyond it is space. */
const LAST_SPACE = 0x20
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/y
const LITERAL = /true|false|null/y
// eslint-disable-next-line no-control-regex -- these may not stand in a string
const STRING = /"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y
/** A byte order mark is no JSON. */
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The text is no JSON, or too deep. Leaves a reading from any depth. */
export class NoJson extends Error {}
export class TooDeep extends NoJson {}

export class JsonCursor {
  readonly text: string
  /** Where it is in the text. */
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

  /** One value, read by `read` from its first character on, with the space around it, and nothing else. */
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

  /** One value that nobody looks at. */
  skip (): void {
    const first = this.peek()
    if (first === '{') this.members(null)
    else if (first === '[') this.items(null)
    else this.#must(first === '"' ? STRING : first === 't' || first === 'f' || first === 'n' ? LITERAL : NUMBER)
  }

  /** `each` reads the value of a member, whose name it gets. null: nobody cares. */
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

  /** `each` reads an item, whose index it gets. */
  items (each: ((index: number) => void) | null): void {
    if (this.#opened(']')) return
    let index = 0
    do {
      this.#space()
      if (each === null) this.skip()
      else each(index++)
    } while (this.#goesOn(']'))
  }

  /** Behind the bracket that opens; true: it closes at once. */
  #opened (closing: string): boolean {
    if (++this.#depth > DEPTH_MAX) throw new TooDeep()
    this.at++
    this.#space()
    if (this.peek() !== closing) return false
    this.at++
    this.#depth--
    return true
  }

  /** Behind a comma (true), or behind the bracket that closes. */
  #goesOn (closing: string): boolean {
    this.#space()
    const char = this.text.charAt(this.at++)
    if (char === ',') return true
    if (char !== closing) throw new NoJson()
    this.#depth--
    return false
  }

  /** Mostly there is none; asked a few times a value. */
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
