/** Paths of the console. Every value in one is encoded here. */

/** A path in which the values are encoded: to`/records/${id}`. */
export function to (parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw({ raw: parts }, ...values.map(encoded))
}

/** Values that are empty are left out. */
export function withQuery (path: string, values: Readonly<Record<string, string | number | undefined>>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  return pairs.length === 0 ? path : `${path}?${pairs.map(([name, value]) => `${encoded(name)}=${encoded(String(value))}`).join('&')}`
}

/** A lone surrogate has no encoding. */
function encoded (value: string): string {
  return encodeURIComponent(value.toWellFormed())
}
