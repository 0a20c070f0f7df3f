/** What a request would get now, and why: of a pasted request, or of a key and a caller. Nothing is executed. */
import type { ExplanationJson } from '../../../operator/explanation.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, button, div, h2, li, ol, p, section, strong, ul } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { facts } from '../shell/facts.ts'
import { choice, postForm, problemBox, textArea, textField } from '../shell/forms.ts'
import { to } from '../shell/links.ts'
import { screen } from '../shell/page.ts'
import type { Page, Screen, Visit } from '../shell/page.ts'
import { said, shortId, visible } from '../shell/text.ts'

export const EXPLAIN_PATH = '/explain'
/** A pasted request of a mebibyte, each byte as three in a form. */
const FORM_BYTES_MAX = 4 * 1024 * 1024

const form: Page = { method: 'GET', path: EXPLAIN_PATH, role: 'viewer', run: async (visit) => explainScreen(visit, null, null) }

const answer: Page = {
  method: 'POST',
  path: EXPLAIN_PATH,
  role: 'viewer',
  bodyBytesMax: FORM_BYTES_MAX,
  run: async (visit) => {
    const found = await visit.ask('explain', { body: askedOf(visit.form) })
    return found instanceof OperatorProblem ? explainScreen(visit, null, found) : explainScreen(visit, found, null)
  }
}

export const explainPages: readonly Page[] = [form, answer]

function askedOf (given: URLSearchParams): Readonly<Record<string, unknown>> {
  const pasted = given.get('pasted') ?? ''
  if (pasted.trim() !== '') return { pasted }
  return { key: { route: given.get('route') ?? '', key: given.get('key') ?? '', callerHeaders: headersOf(given.get('headers') ?? '') } }
}

/** Lines as `Name: value`. One without a colon stays a name, and is told as a mistake. */
function headersOf (text: string): string[][] {
  return text.split(/\r?\n/).filter((each) => each.trim() !== '').map((each) => {
    const at = each.indexOf(':')
    return at === -1 ? [each.trim(), ''] : [each.slice(0, at).trim(), each.slice(at + 1).trim()]
  })
}

function explainScreen (visit: Visit, found: ExplanationJson | null, problem: OperatorProblem | null): Screen {
  const given = visit.form
  const routes = visit.context.config.routes.filter(({ idempotency }) => idempotency !== null).map(({ name }) => name)
  return screen('Explain', [
    problemBox(problem, 'It cannot be explained'),
    found === null ? p({}, 'What would this request get now, and why? It is read and compared, and never sent.') : result(found),
    div({ class: 'columns' },
      section({ class: 'card' }, h2({}, 'A request'), postForm(visit, { action: EXPLAIN_PATH },
        textArea({
          name: 'pasted',
          label: 'Request',
          hint: 'HTTP/1.1 as in a log or from a proxy, or a curl command as browsers copy it.',
          value: given.get('pasted') ?? '',
          problem,
          more: { rows: 10, class: 'code', spellcheck: false }
        }),
        p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Explain the request')))),
      section({ class: 'card' }, h2({}, 'A key and a caller'), postForm(visit, { action: EXPLAIN_PATH },
        choice({ name: 'route', label: 'Route', value: given.get('route') ?? '' }, routes.map((name) => [name, visible(name)] as const)),
        textField(
          { name: 'key', label: 'Key', hint: 'As the client sends it.', value: given.get('key') ?? '', problem, more: { maxlength: 4096 } }
        ),
        textArea({
          name: 'headers',
          label: 'Headers that name the caller',
          hint: 'Such as Authorization: Bearer … They are used for this answer alone.',
          value: given.get('headers') ?? '',
          problem,
          more: { rows: 3, class: 'code', spellcheck: false }
        }),
        p({ class: 'actions' }, button({ class: 'main', type: 'submit' }, 'Explain the key')))))
  ], problem?.status)
}

const DOES: Readonly<Record<ExplanationJson['answer']['does'], string>> = {
  'is-executed': 'It would be sent to the upstream',
  'is-accepted': 'It would be accepted, and delivered later',
  replays: 'It would get the stored answer',
  'shows-status': 'It would get the status of an answer that was not kept',
  waits: 'It would wait for the execution in flight',
  'is-refused': 'It would be refused',
  'is-dropped': 'It would be dropped as a duplicate',
  'is-flagged': 'It would be sent, marked as a duplicate',
  passes: 'It would pass without a record',
  'is-not-known': 'Nothing here can tell'
}

function result ({ notes, route, key, caller, ids, record, message, comparison, answer: told, steps }: ExplanationJson): Child {
  const link = (id: string, path: string): Child => a({ class: 'id', href: path }, shortId(id))
  return section({ class: 'card', role: 'status' },
    h2({}, DOES[told.does]),
    p(
      {},
      strong(
        {},
        [
          told.status === null ? '' : `Status ${told.status}`,
          told.code === null ? '' : `problem ${told.code}`
        ].filter((each) => each !== '').join(', ')
      )
    ),
    ul({}, told.sentences.map((sentence) => li({}, visible(sentence)))),
    facts([
      ['Route', [route.name === null ? 'None' : said(route.name), p({}, visible(route.why))]],
      ['Key', visible(key.source)],
      ['Caller', caller === null ? 'Not looked for' : visible(caller.scope)],
      [ids.length > 1 ? 'Records under' : 'Record under', ids.length === 0 ? '–' : ids.map((id) => div({}, said(id)))],
      ['Record', record === null ? 'None' : [link(record.id, to`/records/${record.id}`), ` ${record.state}`]],
      ...message === null ? [] : [['Message', [link(message.id, to`/inbox/messages/${message.id}`), ` ${message.state}`]] as const],
      ['Compared', comparison.words.map((words) => p({}, visible(words)))]
    ]),
    h2({}, 'The way to it'),
    ol({}, [...notes, ...steps].map((step) => li({}, visible(step)))))
}
