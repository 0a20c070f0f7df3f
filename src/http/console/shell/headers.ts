/** The header fields of a stored answer. */
import { div, p, table, tbody, td, th, thead, tr } from './elements.ts'
import type { Child } from './elements.ts'
import { said } from './text.ts'

export function headerTable (headers: ReadonlyArray<readonly [string, string]>): Child {
  if (headers.length === 0) return p({}, 'It has no header fields.')
  return div({ class: 'scroll', role: 'region', tabindex: 0, 'aria-label': 'Header fields' }, table({},
    thead({}, tr({}, th({ scope: 'col' }, 'Field'), th({ scope: 'col' }, 'Value'))),
    tbody({}, headers.map(([name, value]) => tr({}, th({ scope: 'row' }, said(name)), td({}, said(value)))))))
}
