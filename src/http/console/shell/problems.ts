/** Pages about what could not be done. */
import { OPERATOR_PROBLEMS } from '../../../operator/shared/problem.ts'
import type { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, div, p } from './elements.ts'
import type { Child } from './elements.ts'
import type { Screen } from './page.ts'
import { visible } from './text.ts'

export function problemScreen ({ code, detail, status, members }: OperatorProblem, ...more: Child[]): Screen {
  const content = div({},
    p({ class: 'notice bad', role: 'alert' }, visible(detail)),
    more.length > 0 ? more : p({ class: 'actions' }, a({ class: 'button', href: '/' }, 'To the first page')))
  const { retryAfterS } = members
  return { kind: 'screen', title: OPERATOR_PROBLEMS[code].title, content, status, ...typeof retryAfterS === 'number' && { retryAfterS } }
}

/** The store may have given no answer to a first sending (againForm), which may have been what changed it. */
export function notMade (form: URLSearchParams): Child {
  if (form.size === 0) return null
  return p({}, form.has('again')
    ? 'Nothing was written this time. What you sent before may have been done: see who changed it.'
    : 'Your change was not made. Nothing was written.')
}
