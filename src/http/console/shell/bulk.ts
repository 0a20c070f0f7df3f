/**
 * One change of many: count and sample, then the change step by step. Each step is one form. A script sends them one after another until
 * the operator stops them. Without a script, each step is a button.
 */
import type { StepJson } from '../../../operator/records/bulk.ts'
import { OperatorProblem, type Outcome } from '../../../operator/shared/problem.ts'
import { isOfStore } from '../../../ports/errors.ts'
import { problemOf } from '../../api/api.ts'
import { a, button, div, fieldset, h2, input, label, legend, li, noscript, p, progress, section, ul } from './elements.ts'
import type { Child } from './elements.ts'
import { facts } from './facts.ts'
import { hidden, postForm, reasonField, tick } from './forms.ts'
import { notesOf, rest } from './lists.ts'
import { screen } from './page.ts'
import type { Page, Screen, Visit } from './page.ts'
import { problemScreen } from './problems.ts'
import { counted, moment, said, shortId, visible } from './text.ts'

export interface Counted {
  readonly count: number
  readonly sample: Child
  readonly token: string
  readonly expiresAt: string
  readonly notes: readonly string[]
}

export interface BulkAction { readonly action: string, readonly label: string, readonly consequence: string }

export interface Bulk {
  /** Of both pages. */
  readonly path: string
  readonly title: string
  /** Of one: `record`. */
  readonly thing: string
  readonly back: string
  readonly select: (visit: Visit, filter: Readonly<Record<string, string>>) => Promise<Outcome<Counted>>
  /** What may be done with what the filter finds, by this visitor. */
  readonly actions: (visit: Visit, filter: Readonly<Record<string, string>>) => readonly BulkAction[]
  /** Further fields of the form. */
  readonly fields: (visit: Visit, filter: Readonly<Record<string, string>>) => Child
  /** Names of the fields that go from step to step, beside the reason. */
  readonly kept: readonly string[]
  readonly bodyBytesMax?: number
  readonly step: (visit: Visit, order: Readonly<Record<string, string>>) => Promise<Outcome<StepJson>>
}

/** A step shows so many refusals. The audit and the list have the rest. */
const REFUSALS_MAX = 20
const PAUSE_MS = 300

export function bulkPages (bulk: Bulk): readonly Page[] {
  const { path, bodyBytesMax } = bulk
  return [
    { method: 'GET', path, role: 'operator', run: async (visit) => begin(visit, bulk) },
    { method: 'POST', path, role: 'operator', ...bodyBytesMax !== undefined && { bodyBytesMax }, run: async (visit) => step(visit, bulk) }
  ]
}

async function begin (visit: Visit, { title, thing, back, path, select, actions, fields }: Bulk): Promise<Screen> {
  const filter = rest(visit.query)
  const found = await select(visit, filter)
  const away = p({ class: 'actions' }, a({ class: 'button', href: back }, 'Back to the search'))
  if (found instanceof OperatorProblem) return problemScreen(found, away)
  const filtered = facts(Object.entries(filter).map(([name, value]) => [name, said(value)] as const))
  if (found.count === 0) return screen(title, section({ class: 'card' }, filtered, p({}, `No ${thing} matches any more.`), away))
  return screen(title, [
    notesOf(found.notes),
    section({ class: 'card' },
      h2({}, `${counted(found.count, `${thing} matches`, `${thing}s match`)}`),
      filtered,
      p({}, 'What comes later is not changed, even if it matches. This count can be used until ', moment(found.expiresAt), '.'),
      found.sample),
    section({ class: 'card' },
      h2({}, 'The change'),
      postForm(visit, { action: path },
        hidden('token', found.token),
        hidden('counted', found.count),
        fieldset({}, legend({}, 'What shall be done with all of them?'), actions(visit, filter).map(actionChoice)),
        fields(visit, filter),
        reasonField(''),
        p({ class: 'actions' },
          button({ class: 'main', type: 'submit' }, `Change ${counted(found.count, thing)}`),
          a({ class: 'button quiet', href: back }, 'Leave them'))))
  ])
}

function actionChoice ({ action, label: text, consequence }: BulkAction): Child {
  return tick({ name: 'action', value: action, label: text, hint: consequence, more: { required: true } }, 'radio')
}

interface Standing {
  readonly counted: number
  readonly changed: number
  readonly refused: number
  readonly cursor: string | null
  readonly refusals: StepJson['refused']
  readonly stopped: boolean
  readonly problem: OperatorProblem | null
}

async function step (visit: Visit, bulk: Bulk): Promise<Screen> {
  const { form } = visit
  const before: Standing = {
    counted: whole(form.get('counted')),
    changed: whole(form.get('changed')),
    refused: whole(form.get('refused')),
    cursor: form.get('cursor') ?? '',
    refusals: [],
    stopped: false,
    problem: null
  }
  if (form.has('stop')) return standingScreen(visit, bulk, { ...before, stopped: true })
  const order = Object.fromEntries(
    ['token', 'action', 'reason', 'cursor'].map((name) => [name, form.get(name) ?? '']).filter(([, value]) => value !== '')
  )
  const result = await told(() => bulk.step(visit, order))
  if (result instanceof OperatorProblem) {
    const { changed: done } = result.members
    const changed = before.changed + (typeof done === 'number' ? done : 0)
    return standingScreen(visit, bulk, { ...before, changed, stopped: true, problem: result })
  }
  return standingScreen(visit, bulk, {
    counted: result.counted,
    changed: before.changed + result.changed,
    refused: before.refused + result.refused.length,
    cursor: result.next,
    refusals: result.refused,
    stopped: false,
    problem: null
  })
}

/** A store that is away stops the run, which goes on from here. */
async function told (step: () => Promise<Outcome<StepJson>>): Promise<Outcome<StepJson>> {
  try {
    return await step()
  } catch (error) {
    if (isOfStore(error)) return problemOf(error, true)
    throw error
  }
}

/** Only shown again. What is changed is decided by the token. */
function whole (text: string | null): number {
  const number = Number(text ?? 0)
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}

function standingScreen (visit: Visit, bulk: Bulk, standing: Standing): Screen {
  const { cursor, stopped, problem } = standing
  const isOver = cursor === null
  const runs = !isOver && !stopped
  return screen(bulk.title, section({ class: 'card' },
    div({ id: 'progress', 'aria-live': 'polite' },
      problem === null ? null : problemOfStep(problem),
      progressOf(bulk, standing),
      isOver
        ? p({ class: 'actions' },
          a({ class: 'button main', href: bulk.back }, 'Back to the search'),
          a({ class: 'button', href: '/audit' }, 'To the audit'))
        : stepForm(visit, bulk, standing)),
    runs
      ? p({ class: 'tick', id: 'stop-line' },
        input({ type: 'checkbox', id: 'stop', name: 'stop', value: '1' }),
        label({ for: 'stop' }, 'Stop before the next step'))
      : null), problem?.status)
}

function problemOfStep (problem: OperatorProblem): Child {
  return div({ class: 'notice bad', role: 'alert' },
    h2({}, typeof problem.members.changed === 'number' ? 'This step was broken off' : 'This step was not done'),
    p({}, visible(problem.detail)))
}

function progressOf ({ thing }: Bulk, { counted: all, changed, refused, cursor, refusals, stopped }: Standing): Child {
  const isOver = cursor === null
  const word = isOver ? 'Done' : stopped ? 'Stopped' : 'Changing'
  const more = refused > 0 ? `, ${refused.toLocaleString('en')} refused` : ''
  const most = Math.max(1, all)
  return [
    p({}, `${word}: ${changed.toLocaleString('en')} of ${counted(all, thing)} changed${more}.`),
    progress({ max: most, value: isOver ? most : Math.min(most, changed + refused), 'aria-label': 'Changed' }),
    refusals.length === 0
      ? null
      : [
          p({}, 'Refused in this step:'),
          ul({}, refusals.slice(0, REFUSALS_MAX).map(({ id, detail }) => li({}, shortId(id), ' ', visible(detail))))
        ]
  ]
}

/** A step that fails as a page shows that page in the place of the progress. */
const SHOWN_OF_ANSWER = '#progress > *, main:not(:has(#progress)) > *'

function stepForm ({ form, operator }: Visit, { path, kept, back }: Bulk, standing: Standing): Child {
  const { counted: all, changed, refused, cursor, stopped } = standing
  const again = stopped
    ? {}
    : {
        'hx-post': path,
        'hx-trigger': `load delay:${PAUSE_MS}ms`,
        'hx-target': '#progress',
        'hx-select': SHOWN_OF_ANSWER,
        'hx-swap': 'innerHTML',
        'hx-include': '#stop'
      }
  return postForm({ operator }, { action: path, ...again },
    ...['token', 'action', 'reason', ...kept].filter((name) => form.has(name)).map((name) => hidden(name, form.get(name) ?? '')),
    ...Object.entries({ counted: all, changed, refused, cursor: cursor ?? '' }).map(([name, value]) => hidden(name, value)),
    stopped
      ? p({ class: 'actions' },
        button({ class: 'main', type: 'submit' }, 'Continue'),
        a({ class: 'button quiet', href: back }, 'Leave the rest'))
      : noscript({}, button({ class: 'main', type: 'submit' }, 'Next step')))
}
