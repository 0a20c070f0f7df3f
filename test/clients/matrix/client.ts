/** What the matrix asks of a client, and how the end of its call is written down. */

/** One call of the caller: everything but the time-out is the same in every retry. */
export interface Call {
  readonly url: string
  readonly key: string
  readonly amount: number
  /** The client's own, for one try. */
  readonly timeoutMs: number
}

/** What the caller has in his hands when the client's call is over. */
export type Ending =
  | { readonly status: number, readonly body: unknown }
  /** Thrown, and no answer in it. */
  | { readonly error: string }

export interface Client {
  readonly send: (call: Call) => Promise<Ending>
  readonly close?: () => Promise<void>
}

/** `201`, `502 outcome-unknown`, `no answer: ReadTimeout`. */
export function written (ending: Ending): string {
  if ('error' in ending) return `no answer: ${ending.error}`
  const code = codeOf(ending.body)
  return code === null ? String(ending.status) : `${ending.status} ${code}`
}

/** SDKs show the whole problem, or its member `error` alone. */
function codeOf (body: unknown): string | null {
  const { code, error } = (body ?? {}) as { readonly code?: unknown, readonly error?: { readonly code?: unknown } }
  return [code, error?.code].find((found) => typeof found === 'string') ?? null
}

/** The id in the answer, that every execution makes anew. */
export function idOf (ending: Ending): string | null {
  const id = 'body' in ending ? (ending.body as { readonly id?: unknown } | null)?.id : null
  return typeof id === 'string' ? id : null
}

export function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
