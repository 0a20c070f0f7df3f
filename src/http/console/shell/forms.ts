/** Forms of the console. Every input has a label, and its hint and its error are tied to it. */
import type { VNode } from 'preact'
import type { OperatorProblem } from '../../../operator/shared/problem.ts'
import { REASON_CHARS_MAX } from '../../../operator/shared/schema-words.ts'
import { button, div, form, h2, input, label, option, p, select, span, textarea } from './elements.ts'
import type { Attributes, Child } from './elements.ts'
import type { Visit } from './page.ts'
import { visible } from './text.ts'

/** With the CSRF token of whoever is signed in. */
export function postForm (
  { operator }: Pick<Visit, 'operator'>, attributes: Attributes & { readonly action: string }, ...children: Child[]
): VNode {
  return form({ method: 'post', ...attributes }, hidden('csrf', operator.csrfToken ?? ''), ...children)
}

/** The same form once more. `again`: what comes of it may be what was sent before. */
export function againForm (visit: Pick<Visit, 'operator'>, action: string, sent: URLSearchParams): VNode {
  const fields = [...sent].filter(([name]) => name !== 'csrf' && name !== 'again')
  return postForm(visit, { action },
    p({}, 'What you sent is kept in this page. It is safe to send it again: nothing is done twice.'),
    fields.map(([name, value]) => hidden(name, value)),
    hidden('again', 1),
    p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Send it again')))
}

export function hidden (name: string, value: string | number): VNode {
  return input({ type: 'hidden', name, value })
}

export interface Field {
  readonly name: string
  readonly label: string
  readonly value?: string
  readonly hint?: string
  /** The problem that the server found. It is tied to this field if its text begins with the field's name. */
  readonly problem?: OperatorProblem | null
  readonly more?: Attributes
}

export function textField (field: Field): VNode {
  return fieldOf(field, (common) => input({ type: 'text', value: field.value ?? '', autocomplete: 'off', ...common, ...field.more }))
}

export function textArea (field: Field): VNode {
  return fieldOf(field, (common) => textarea({ rows: 4, ...common, ...field.more }, `\n${field.value ?? ''}`))
}

export function choice (field: Field, options: ReadonlyArray<readonly [value: string, text: string]>): VNode {
  return fieldOf(field, (common) => select({ ...common, ...field.more }, options.map(([value, text]) =>
    option({ value, selected: value === (field.value ?? '') }, text))))
}

/** A box to tick or one of several: `type` checkbox or radio. */
export function tick ({ name, label: text, value = '1', hint, more = {} }: Field, type: 'checkbox' | 'radio' = 'checkbox'): VNode {
  const id = `f-${name}-${value}`
  return div({ class: 'tick' },
    input({ type, id, name, value, ...hint !== undefined && { 'aria-describedby': `${id}-hint` }, ...more }),
    label({ for: id }, text),
    hint === undefined ? null : span({ class: 'hint', id: `${id}-hint` }, hint))
}

export function reasonField (value: string, problem: OperatorProblem | null = null): VNode {
  return textField({
    name: 'reason',
    label: 'Reason',
    hint: 'For the audit: what you saw, and where.',
    value,
    problem,
    more: { required: true, maxlength: REASON_CHARS_MAX }
  })
}

/** What the server found wrong, above the form. */
export function problemBox (problem: OperatorProblem | null, title = 'Nothing was changed'): Child {
  return problem === null
    ? null
    : div({ class: 'notice bad', role: 'alert' }, h2({}, title), p({ id: PROBLEM_ID }, visible(problem.detail)))
}

const PROBLEM_ID = 'problem'

function fieldOf ({ name, label: text, hint, problem = null }: Field, make: (common: Attributes) => VNode): VNode {
  const id = `f-${name}`
  const wrong = problem !== null && problem.detail.startsWith(`${name} `)
  const described = [...hint === undefined ? [] : [`${id}-hint`], ...wrong ? [PROBLEM_ID] : []].join(' ')
  return div({ class: 'field' },
    label({ for: id }, text),
    make({ id, name, ...described !== '' && { 'aria-describedby': described }, ...wrong && { 'aria-invalid': 'true' } }),
    hint === undefined ? null : span({ class: 'hint', id: `${id}-hint` }, hint))
}

/** The fields of a form by name, without empty ones. Line ends come as CR LF from browsers. */
export function valuesOf (form: URLSearchParams, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, form.get(name) ?? ''] as const).filter(([, value]) => value.trim() !== ''))
}

/** Also a route that is in no configuration any more, if it was asked for. */
export function routeChoice (value: string, names: readonly string[]): Child {
  const all = [...new Set([...names, ...value === '' ? [] : [value]])].sort()
  return choice({ name: 'route', label: 'Route', value }, [['', 'Any'], ...all.map((name) => [name, visible(name)] as const)])
}
