/** An upstream that holds every answer back until the test releases it. */
import { CREATED } from './witness.ts'
import type { Behaviour } from './witness.ts'

export function slow (then: Behaviour = CREATED): { readonly answer: Behaviour, readonly open: () => void } {
  const opened = Promise.withResolvers<void>()
  return { answer: async (...args) => { await opened.promise; await then(...args) }, open: opened.resolve }
}
