/** Work that many ask for at once and that is done once: whoever comes while it is under way gets the same result. */
export function shared<T> (work: () => Promise<T>): () => Promise<T> {
  let under: Promise<T> | null = null
  return () => {
    under ??= work().finally(() => { under = null })
    return under
  }
}
