/** What an operator sees whose change came too late: how the record is now, who changed it, and when. */
import type { RecordJson } from '../../../operator/records/schemas.ts'
import type { OperatorProblem, Outcome } from '../../../operator/shared/problem.ts'
import { OperatorProblem as Problem } from '../../../operator/shared/problem.ts'
import { changesOf } from '../audit/rows.ts'
import { a, h2, p, section } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { to } from '../shell/links.ts'
import type { Screen, Visit } from '../shell/page.ts'
import { notMade, problemScreen } from '../shell/problems.ts'
import { recordFacts } from './record.ts'

const CONFLICT = 409

export function isConflict ({ status, code }: OperatorProblem): boolean {
  return status === CONFLICT || code === 'not-found'
}

export async function conflictScreen (visit: Visit, problem: OperatorProblem, id: string): Promise<Screen> {
  const record = await visit.ask('showRecord', { params: { id } })
  return problemScreen(problem,
    notMade(visit.form),
    ...await nowOf(visit, record, id))
}

/** What it is now, and who changed it. */
export async function nowOf (visit: Visit, record: Outcome<RecordJson>, id: string): Promise<Child[]> {
  return [
    await changesOf(visit, id, 'Who changed it'),
    record instanceof Problem
      ? p({}, 'The record is forgotten.')
      : section({ class: 'card' }, h2({}, 'What it is now'), recordFacts(record)),
    p({ class: 'actions' },
      a({ class: 'button', href: to`/records/${id}` }, 'To the record'),
      a({ class: 'button', href: '/unknown' }, 'To the unknown outcomes'))
  ]
}
