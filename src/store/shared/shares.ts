/**
 * The shares of single messages and of groups in what a take hands out. Each gets half, and what the other does not use. So a burst of
 * single messages starves no group, and thousands of groups starve no single message. Within each, the oldest goes first.
 */
export type Kind = 'single' | 'group'

/** Whose turn it is to be first, by route. A take of one place gives that place to them in turn. */
export class Shares {
  readonly #first = new Map<string, Kind>()

  first (route: string): Kind {
    return this.#first.get(route) ?? 'group'
  }

  /** What a take has handed out of a route. If the shares differ, the other kind is first next time. */
  note (route: string, kinds: readonly Kind[]): void {
    const singles = kinds.filter((kind) => kind === 'single').length
    const groups = kinds.length - singles
    if (singles !== groups) this.#first.set(route, singles > groups ? 'group' : 'single')
  }
}

/** A trial looks at so many messages that are due first, and at so many that are due last, of each kind. */
export const TRIAL_AMONG = 500

/** For drivers that choose in code: at most `places` of both, alternately. Each list is oldest first. */
export function alternately<Message> (
  { single, group }: Readonly<Record<Kind, readonly Message[]>>,
  first: Kind,
  places: number
): Message[] {
  const [one, other] = first === 'single' ? [single, group] : [group, single]
  const longest = Math.max(one.length, other.length)
  const all = Array.from({ length: longest }, (_, turn) => [...one.slice(turn, turn + 1), ...other.slice(turn, turn + 1)]).flat()
  return all.slice(0, places)
}
