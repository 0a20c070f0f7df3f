/** A time limit for what stores are asked, whatever they do: an operator waits no longer, even if a database does not answer. */
import { isOfStore, StoreUnavailable } from '../../ports/errors.ts'

/** @throws StoreUnavailable in doubt: nothing is known of the work, which may still be done. */
export async function within<Result> (ms: number, work: () => Promise<Result>): Promise<Result> {
  const over = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    over.reject(new StoreUnavailable('store', 'question', true, new Error(`it has not answered within ${ms} ms`)))
  }, ms)
  const working = work()
  // Whoever asked has an answer by then.
  working.catch(() => {})
  try {
    return await Promise.race([working, over.promise])
  } finally {
    clearTimeout(timer)
  }
}

/** What is looked at behind a change. The change is committed, and is told even if the look fails: then null. */
export async function shownNow<Shown> (look: () => Promise<Shown>): Promise<Shown | null> {
  try {
    return await look()
  } catch (error) {
    if (isOfStore(error)) return null
    throw error
  }
}
