/** What operators did to a record, in its history: who resolved or released it, asked the upstream, or deleted it. */
import type { AuditRow } from '../../core/record/audit.ts'
import type { RecordDetail } from '../../core/record/record.ts'
import type { OperatorContext } from '../shared/operators.ts'
import { SEARCH_WITHIN_MS, timeText } from '../shared/query.ts'
import type { RecordJson } from './schemas.ts'

type History = RecordJson['history']

/** Its latest changes by hand. The audit has all of them. */
const CHANGES_MAX = 20

const CHANGED: Readonly<Partial<Record<AuditRow['action'], string>>> = {
  probe: 'The upstream was asked by hand, by',
  delete: 'Deleted by'
}

/** `history`: as the row alone tells it. @throws as the store does */
export async function historyByHand (
  { stores }: Pick<OperatorContext, 'stores'>,
  record: RecordDetail,
  history: History
): Promise<History> {
  const { rows } = await stores.operator.searchAudit({
    id: record.id, order: 'newest', limit: CHANGES_MAX, after: null, withinMs: SEARCH_WITHIN_MS
  })
  // The key may have been claimed anew since: then the earlier changes are of another request.
  const own = rows.filter(({ about, owner, attempt }) =>
    about === 'record' && owner?.equals(record.owner) === true && attempt === record.attempt)
  const settled = own.find(({ action }) => action === 'resolve' || action === 'release')
  const changed = own.flatMap(({ action, atMs, who, why }): History => {
    const text = CHANGED[action]
    const sinceClaimMs = Math.round(atMs - record.claimedAtMs)
    return text === undefined ? [] : [{ what: 'changed', at: timeText(atMs), sinceClaimMs, by: who, text: `${text} ${who}: ${why}` }]
  })
  return [
    ...history.map((moment) => moment.what === 'settled' && moment.by === 'operator' && settled !== undefined
      ? { ...moment, by: settled.who, text: `${moment.text}, ${settled.who}: ${settled.why}` }
      : moment),
    ...changed
  ].sort((one, other) => Date.parse(one.at) - Date.parse(other.at))
}
