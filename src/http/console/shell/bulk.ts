/**
 * One change of many: count and sample, then the change step by step. Each step is one form. A script sends them one after another until
 * the operator stops them. Without a script, each step is a button.
 */
import type { StepJson } from '../../../operator/records/bulk.ts'
import { OperatorProblem, type Outcome } from '../../../operator/shared/problem.ts'
import { a, button, div, fieldset, h2, input, label, legend, li, noscript, p, progress, section, ul } from './elements.ts'
import type { Child } from './elements.ts'
import { facts } from './facts.ts'
import { hidden, postForm, problemBox, reasonField, tick } from './forms.ts'
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
  if (found instanceof OperatorProblem) return problemScreen(found, p({ class: 'actions' }, a({ class: 'button', href: back }, 'Back to the search')))
  const filtered = facts(Object.entries(filter).map(([name, value]) => [name, said(value)] as const))
  if (found.count === 0) return screen(title, section({ class: 'card' }, filtered, p({}, `No ${thing} matches any more.`)))
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
        fieldset({}, legend({}, 'What shall be done with all of them?'), actions(visit, filter).map(({ action, label: text, consequence }) =>
          tick({ name: 'action', value: action, label: text, hint: consequence, more: { required: true } }, 'radio'))),
        fields(visit, filter),
        reasonField(''),
        p({ class: 'actions' },
          button({ class: 'main', type: 'submit' }, `Change ${counted(found.count, thing)}`),
          a({ class: 'button quiet', href: back }, 'Leave them'))))
  ])
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
    counted: whole(form.get('counted')), changed: whole(form.get('changed')), refused: whole(form.get('refused')), cursor: form.get('cursor') ?? '', refusals: [], stopped: false, problem: null
  }
  if (form.has('stop')) return standingScreen(visit, bulk, { ...before, stopped: true })
  const order = Object.fromEntries(['token', 'action', 'reason', 'cursor'].map((name) => [name, form.get(name) ?? '']).filter(([, value]) => value !== ''))
  const result = await bulk.step(visit, order)
  if (result instanceof OperatorProblem) return standingScreen(visit, bulk, { ...before, stopped: true, problem: result })
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

/** Only shown again. What is changed is decided by the token. */
function whole (text: string | null): number {
  const number = Number(text ?? 0)
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}

function standingScreen (visit: Visit, bulk: Bulk, standing: Standing): Screen {
  const { path, title, back, thing } = bulk
  const { counted: all, changed, refused, cursor, refusals, stopped, problem } = standing
  const isOver = cursor === null
  const runs = !isOver && !stopped
  const again = runs ? { 'hx-post': path, 'hx-trigger': `load delay:${PAUSE_MS}ms`, 'hx-target': '#progress', 'hx-select': '#progress > *', 'hx-swap': 'innerHTML', 'hx-include': '#stop' } : {}
  const word = isOver ? 'Done' : stopped ? 'Stopped' : 'Changing'
  return screen(title, section({ class: 'card' },
    div({ id: 'progress', 'aria-live': 'polite' },
      problemBox(problem),
      p({ class: runs ? 'runs' : 'rests' }, `${word}: ${changed.toLocaleString('en')} of ${counted(all, thing)} changed${refused > 0 ? `, ${refused} refused` : ''}.`),
      progress({ max: Math.max(1, all), value: isOver ? Math.max(1, all) : Math.min(all, changed + refused), 'aria-label': 'Changed' }),
      refusals.length === 0 ? null : [p({}, 'Refused in this step:'), ul({}, refusals.slice(0, REFUSALS_MAX).map(({ id, detail }) => li({}, shortId(id), ' ', visible(detail))))],
      isOver
        ? p({ class: 'actions' }, a({ class: 'button main', href: back }, 'Back to the search'), a({ class: 'button', href: '/audit' }, 'To the audit'))
        : postForm(visit, { action: path, ...again },
          ...['token', 'action', 'reason', ...bulk.kept].filter((name) => visit.form.has(name)).map((name) => hidden(name, visit.form.get(name) ?? '')),
          ...Object.entries({ counted: all, changed, refused, cursor }).map(([name, value]) => hidden(name, value)),
          stopped ? p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Continue'), a({ class: 'button quiet', href: back }, 'Leave the rest')) : noscript({}, button({ class: 'main', type: 'submit' }, 'Next step')))),
    runs ? p({ class: 'tick', id: 'stop-line' }, input({ type: 'checkbox', id: 'stop', name: 'stop', value: '1' }), label({ for: 'stop' }, 'Stop before the next step')) : null), problem?.status)
}
