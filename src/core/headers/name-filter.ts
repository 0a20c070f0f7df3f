/**
 * Rules out most header names by their length and their ends. It runs on every line of every request. A name that it rules out needs no
 * copy in lower case and no hash.
 */

/** Says of a name: false, it is none of `names`, in whatever case. true, it may be one. `names`: in lower case. */
export function nameFilter (names: readonly string[]): (name: string) => boolean {
  const lengthMax = Math.max(...names.map(({ length }) => length))
  // By length: a bit for the first character of each name, and one for the last.
  const first = new Int32Array(lengthMax + 1)
  const last = new Int32Array(lengthMax + 1)
  for (const name of names) {
    first[name.length] = (first[name.length] ?? 0) | charBit(name, 0)
    last[name.length] = (last[name.length] ?? 0) | charBit(name, name.length - 1)
  }
  return (name) => {
    const { length } = name
    if (length === 0 || length > lengthMax) return false
    return ((first[length] ?? 0) & charBit(name, 0)) !== 0 && ((last[length] ?? 0) & charBit(name, length - 1)) !== 0
  }
}

/** The same for a letter and its capital. Digits share bits with letters, which costs a needless look-up and no mistake. */
function charBit (name: string, at: number): number {
  return 1 << (name.charCodeAt(at) & 31)
}
