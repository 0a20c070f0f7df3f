/**
 * Splits one command line into words, with the quotes of a POSIX shell and with `$'…'`, as browsers copy requests. It never runs
 * anything: what a shell would replace or start is refused. Linear in the text.
 */
import { PasteError } from './paste-error.ts'

/** @throws PasteError */
export function shellWords (text: string): string[] {
  const words: string[] = []
  let word: string | null = null
  for (let at = 0; at < text.length;) {
    const char = text.charAt(at)
    if (BLANK.test(char)) {
      if (word !== null) words.push(word)
      word = null
      at++
      continue
    }
    const piece = pieceAt(text, at)
    if (piece.text !== null) word = (word ?? '') + piece.text
    at = piece.end
  }
  if (word !== null) words.push(word)
  return words
}

const BLANK = /[ \t\r\n]/
/** Characters by which a shell does more than pass a word on. */
const DOES_MORE = /[|;&<>()`$]/

/** `text` null: it adds nothing, not even an empty word. `end`: where the next piece begins. */
interface Piece { readonly text: string | null, readonly end: number }

function pieceAt (text: string, at: number): Piece {
  const char = text.charAt(at)
  if (char === "'") return singleQuoted(text, at + 1)
  if (char === '"') return doubleQuoted(text, at + 1)
  if (char === '$' && text.charAt(at + 1) === "'") return escaped(text, at + 2)
  if (char === '\\') return backslash(text, at + 1)
  if (DOES_MORE.test(char)) {
    throw new PasteError(`The command has an unquoted ${char}. Nothing is run or replaced here: paste one curl command with its values written out.`)
  }
  return { text: char, end: at + 1 }
}

function backslash (text: string, at: number): Piece {
  if (at >= text.length) throw new PasteError('The command ends in a backslash.')
  // A shell removes a backslash with the line end after it. A page may have changed the line end.
  if (text.charAt(at) === '\n') return { text: null, end: at + 1 }
  if (text.startsWith('\r\n', at)) return { text: null, end: at + 2 }
  return { text: text.charAt(at), end: at + 1 }
}

function singleQuoted (text: string, at: number): Piece {
  const end = text.indexOf("'", at)
  if (end === -1) throw unclosed("'")
  return { text: text.slice(at, end), end: end + 1 }
}

function doubleQuoted (text: string, from: number): Piece {
  let read = ''
  for (let at = from; at < text.length;) {
    const char = text.charAt(at)
    if (char === '"') return { text: read, end: at + 1 }
    if (char === '$' || char === '`') {
      throw new PasteError(`The command has a ${char} between double quotes, which a shell would replace. Write the value out.`)
    }
    const next = text.charAt(at + 1)
    if (char === '\\' && '\\"$`\n'.includes(next) && next !== '') {
      if (next !== '\n') read += next
      at += 2
    } else {
      read += char
      at++
    }
  }
  throw unclosed('"')
}

// ---------------------------------------------------------------- $'…'

const SIMPLE: Readonly<Record<string, string>> = {
  a: '\x07', b: '\b', e: '\x1b', E: '\x1b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v', '\\': '\\', "'": "'", '"': '"', '?': '?'
}
/** A number of hexadecimal or octal digits after a backslash. */
const NUMBER = /x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})/y
const CODE_POINT_MAX = 0x10ffff
const BYTE_MAX = 0x7f

function escaped (text: string, from: number): Piece {
  let read = ''
  for (let at = from; at < text.length;) {
    const char = text.charAt(at)
    if (char === "'") return { text: read, end: at + 1 }
    if (char !== '\\') {
      read += char
      at++
      continue
    }
    const simple = Object.hasOwn(SIMPLE, text.charAt(at + 1)) ? SIMPLE[text.charAt(at + 1)] : undefined
    NUMBER.lastIndex = at + 1
    const number = simple === undefined ? NUMBER.exec(text) : null
    if (simple === undefined && number === null) {
      throw new PasteError(`The command has an escape in $'…' that is not known here: \\${text.charAt(at + 1)}.`)
    }
    read += simple ?? numbered(number)
    at += 1 + (number?.[0].length ?? 1)
  }
  throw unclosed("$'")
}

/** A byte above 127 is half of a letter, and has no place in a text. */
function numbered (found: RegExpExecArray | null): string {
  const [, byte, short, long, octal] = found ?? []
  const code = octal === undefined ? parseInt(byte ?? short ?? long ?? '0', 16) : parseInt(octal, 8)
  const isByte = byte !== undefined || octal !== undefined
  if (code > CODE_POINT_MAX || code === 0 || (isByte && code > BYTE_MAX)) {
    throw new PasteError(`The command has an escape in $'…' that is no character: \\${found?.[0] ?? ''}.`)
  }
  return String.fromCodePoint(code)
}

function unclosed (quote: string): PasteError {
  return new PasteError(`The command has a ${quote} that is not closed.`)
}
