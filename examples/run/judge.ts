/** Judges the result of an example. Pure. */

/** Least percentage of duplicates. With fewer, an example proves nothing. */
export const DUPLICATES_PERCENT_MIN = 5

export interface Verdict {
  readonly messages: number
  /** Requests at the gateway that were not the first of their message. */
  readonly duplicates: number
  readonly lost: number
  readonly twice: number
  /** Other errors. */
  readonly wrong: readonly string[]
  /** Other facts about the run. */
  readonly remarks: readonly string[]
}

/** Counts lost and repeated messages, and executions of messages that were never sent. */
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
