/** What is left of an example when it is over, and whether that is right. Pure. */

/** So many of the messages, in per cent, are sent twice at least; with fewer an example has shown nothing. */
export const DUPLICATES_PERCENT_MIN = 5

export interface Verdict {
  readonly messages: number
  /** Requests at the gateway's door that were not the first of their message. */
  readonly duplicates: number
  readonly lost: number
  readonly twice: number
  /** What is not right beside these; empty: nothing. */
  readonly wrong: readonly string[]
  /** What else happened, in words. */
  readonly remarks: readonly string[]
}

/** Every message exactly once, and nothing that was never sent. */
export function judge (messages: readonly string[], done: readonly string[], duplicates: number, remarks: readonly string[]): Verdict {
  const times = new Map(messages.map((message) => [message, 0]))
  let unknown = 0
  for (const message of done) {
    const before = times.get(message)
    if (before === undefined) unknown++
    else times.set(message, before + 1)
  }
  const counts = Array.from(times.values())
  return {
    messages: messages.length,
    duplicates,
    lost: counts.filter((count) => count === 0).length,
    twice: counts.filter((count) => count > 1).length,
    wrong: unknown === 0 ? [] : [`${unknown} were done that nobody has sent`],
    remarks
  }
}

export function isRight ({ messages, duplicates, lost, twice, wrong }: Verdict): boolean {
  return messages > 0 && lost === 0 && twice === 0 && wrong.length === 0 && duplicates * 100 >= messages * DUPLICATES_PERCENT_MIN
}
