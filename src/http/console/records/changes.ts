/** Changes of one record that need no more than a reason: forget it, and ask the upstream now. Each has a page that says what follows. */
import type { RecordJson } from '../../../operator/records/schemas.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, button, div, h2, p, section } from '../shell/elements.ts'
import { hidden, postForm, problemBox, reasonField, valuesOf } from '../shell/forms.ts'
import { to } from '../shell/links.ts'
import { redirect, screen } from '../shell/page.ts'
import type { Page, Screen, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { shortId } from '../shell/text.ts'
import { conflictScreen, isConflict } from './conflict.ts'
import { recordFacts } from './record.ts'

interface Change {
  readonly action: 'delete' | 'probe'
  readonly operation: 'deleteRecord' | 'probeRecord'
  readonly title: string
  readonly consequence: (record: RecordJson) => string
  readonly button: string
  /** After it. */
  readonly next: (id: string) => string
}

const CHANGES: readonly Change[] = [
  {
    action: 'delete',
    operation: 'deleteRecord',
    title: 'Forget',
    consequence: ({ state }) => state === 'released'
      ? 'The record is forgotten. Its key was free already.'
      : 'The stored outcome is forgotten. A retry with this key is then sent to the upstream as a new request, and the work can be done twice.',
    button: 'Forget this record',
    next: (id) => `${to`/records/${id}`}?done=1`
  },
  {
    action: 'probe',
    operation: 'probeRecord',
    title: 'Ask the upstream about',
    consequence: () => 'The gateway asks the upstream at its next turn, with the question of the route. If the answer is clear, the record is settled by it, and waiting retries are told.',
    button: 'Ask now',
    next: (id) => `${to`/unknown/${id}`}?done=1`
  }
]

const TOKEN = ['owner', 'attempt', 'reason'] as const

export const recordChanges: readonly Page[] = CHANGES.flatMap((change) => [
  {
    method: 'GET',
    path: `/records/:id/${change.action}`,
    role: 'operator',
    run: async (visit) => confirmation(visit, change, null)
  },
  {
    method: 'POST',
    path: `/records/:id/${change.action}`,
    role: 'operator',
    run: async (visit) => {
      const id = visit.params.id ?? ''
      const done = await visit.ask(change.operation, { params: { id }, body: valuesOf(visit.form, TOKEN) })
      if (!(done instanceof OperatorProblem)) return redirect(change.next(id))
      return isConflict(done) ? conflictScreen(visit, done, id) : confirmation(visit, change, done)
    }
  }
] satisfies Page[])

async function confirmation (visit: Visit, change: Change, problem: OperatorProblem | null): Promise<Screen> {
  const record = await visit.ask('showRecord', { params: { id: visit.params.id } })
  if (record instanceof OperatorProblem) return problemScreen(record)
  if (!record.changes.includes(change.action)) {
    return conflictScreen(
      visit, new OperatorProblem('refused', 'Its state does not allow this.'), record.id
    )
  }
  const title = `${change.title} record ${shortId(record.id)}`
  return screen(title, [
    problemBox(problem),
    div({ class: 'columns' },
      section({ class: 'card' }, h2({}, 'What follows'),
        p({ class: 'consequence' }, change.consequence(record)),
        postForm(visit, { action: to`/records/${record.id}/${change.action}` },
          hidden('owner', record.owner),
          hidden('attempt', record.attempt),
          reasonField(visit.form.get('reason') ?? '', problem),
          p({ class: 'actions' },
            button({ class: 'main', type: 'submit' }, change.button),
            a({ class: 'button quiet', href: to`/records/${record.id}` }, 'Leave it')))),
      section({ class: 'card' }, h2({}, 'What it is'), recordFacts(record)))
  ], problem?.status)
}
