/** I13, if a request may have more than one id: while its life under one id lasts, nothing begins under another. Pure. */
import type { Written } from './audit.ts'

export interface IdsHistory {
  readonly audit: readonly Written[]
  readonly rows: readonly Written[]
  /** Of messages, by their requests. */
  readonly accepted?: ReadonlyMap<string, readonly string[]>
}

interface TwoIds { readonly invariant: 'I13', readonly record: string, readonly detail: string }

const found = (record: string, detail: string): TwoIds => ({ invariant: 'I13', record, detail: `record ${record.slice(0, 8)} ${detail}` })

export function judgeIds (history: IdsHistory): TwoIds[] {
  return [...claimedTwice(history.audit), ...standingTwice(history)]
}

function claimedTwice (audit: readonly Written[]): TwoIds[] {
  const standing = new Map<string, string>()
  return audit.flatMap(({ record, id = record, state, gone }): TwoIds[] => {
    const other = standing.get(record)
    if (gone) {
      if (other === id) standing.delete(record)
      return []
    }
    if (state !== 'claimed') return []
    standing.set(record, id)
    return other === undefined || other === id
      ? []
      : [found(record, `was claimed under ${id.slice(0, 8)} while it stood under ${other.slice(0, 8)}`)]
  })
}

/** A message may exist beside the record of its own id, and of no other id. */
function standingTwice ({ rows, accepted = new Map() }: IdsHistory): TwoIds[] {
  const ids = new Map(Array.from(accepted, ([record, each]): [string, Set<string>] => [record, new Set(each)]))
  for (const { record, id = record } of rows) ids.set(record, (ids.get(record) ?? new Set()).add(id))
  return Array.from(ids)
    .filter(([, each]) => each.size > 1)
    .map(([record, each]) => found(record, `stands under ${Array.from(each, (id) => id.slice(0, 8)).join(' and ')}`))
}
