/**
 * Text from clients, consumers and other operators, as a terminal may get it. A control character can move the cursor or retitle the
 * window. One that reverses the direction of text, or is invisible, can make a path look like another one.
 */
import type { Terminal } from './command.ts'

/** C0, C1, line and paragraph separators, formats (bidirectional, zero width, tags), and halves of characters. */
const ACTS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu
const HEX = 16
const CODE_DIGITS = 4

/** As JSON would write it, so that a line of JSON keeps its meaning. */
export function shownText (text: string): string {
  return text.replace(ACTS, (character) => Array.from(
    { length: character.length },
    (_, at) => `\\u${character.charCodeAt(at).toString(HEX).padStart(CODE_DIGITS, '0')}`
  ).join(''))
}

/** The same for a text of several lines. */
export function shownLines (text: string): string {
  return text.split('\n').map(shownText).join('\n')
}

/** For commands that print a line with each call. */
export function shownBy (terminal: Terminal): Terminal {
  return { ...terminal, out: (line) => { terminal.out(shownText(line)) }, err: (line) => { terminal.err(shownText(line)) } }
}
