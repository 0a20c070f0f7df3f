/** Tables and counts as text for operators. */
import { shownText } from './terminal-text.ts'

/** A title, a line of headings, and aligned columns. */
export function tableLines (title: string, headings: readonly string[], cells: ReadonlyArray<readonly string[]>): string[] {
  const rows = cells.map((row) => row.map(shownText))
  const widths = headings.map((heading, column) => rows.reduce((width, row) => Math.max(width, row[column]?.length ?? 0), heading.length))
  const line = (row: readonly string[]): string => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd()
  return [title, line(headings), ...rows.map(line)]
}

/** `1 record`, `2 records`. */
export function counted (count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}
