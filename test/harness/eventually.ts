/** Waiting for what must become true: looks often, gives up with a sentence. Never a fixed pause. */
const LOOK_MS = 5
const LONGEST_MS = 5_000

export async function eventually (holds: () => boolean | Promise<boolean>, what: string | (() => string), longestMs = LONGEST_MS): Promise<void> {
  const endsAt = performance.now() + longestMs
  while (!await holds()) {
    if (performance.now() > endsAt) throw new Error(typeof what === 'string' ? `never came true: ${what}` : what())
    await new Promise(resolve => { setTimeout(resolve, LOOK_MS) })
  }
}
