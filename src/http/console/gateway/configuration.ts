/** The configuration that runs, with secrets masked, and the last reload with its mistakes. */
import type { ConfigurationJson } from '../../../operator/overview/overview.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { h2, li, p, pre, section, ul } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { facts } from '../shell/facts.ts'
import { screen } from '../shell/page.ts'
import type { Page } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { moment, momentOr, said, visible } from '../shell/text.ts'

export const CONFIGURATION_PATH = '/configuration'

export const configurationPage: Page = {
  method: 'GET',
  path: CONFIGURATION_PATH,
  role: 'viewer',
  run: async (visit) => {
    const found = await visit.ask('showConfiguration')
    if (found instanceof OperatorProblem) return problemScreen(found)
    return screen('Configuration', [
      section({ class: 'card' }, h2({}, 'What runs'), facts([
        ['File', found.file === null ? 'None: the command line' : said(found.file)],
        ['Loaded', momentOr(found.loadedAt, '–')]
      ])),
      reload(found),
      found.warnings.length === 0
        ? null
        : section({ class: 'card' }, h2({}, 'Remarks'), ul({}, found.warnings.map((warning) => li({}, visible(warning))))),
      section({ class: 'card' },
        h2({}, 'All settings'),
        p({}, 'With defaults and overrides. Secrets are masked.'),
        pre({ class: 'body', tabindex: 0, role: 'region', 'aria-label': 'Settings' }, visible(found.text, { lines: true })))
    ])
  }
}

function reload ({ lastReload }: ConfigurationJson): Child {
  if (lastReload === null) {
    return section(
      { class: 'card' },
      h2({}, 'Last reload'),
      p({}, 'None since the start. What a reload changes, or its mistakes, would be here.')
    )
  }
  const { at, result, details } = lastReload
  return section({ class: result === 'ok' ? 'card' : 'card notice bad' },
    h2({}, result === 'ok' ? 'Last reload' : 'The last reload was refused'),
    p(
      {},
      moment(at),
      result === 'ok'
        ? (
            details.length === 0 ? ': nothing has changed.' : ': these have changed.'
          )
        : ': the configuration before it still runs.'
    ),
    details.length === 0 ? null : ul({}, details.map((detail) => li({}, visible(detail)))))
}
