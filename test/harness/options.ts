/** Options of a command line, checked. */
export function positive (name: string, text: string): number {
  const number = Number(text)
  if (!(number > 0)) throw new RangeError(`--${name} wants a number above 0`)
  return number
}
