/**
 * The guided way for one unknown outcome: what is known, ask the upstream, what the operator saw there, the change with its consequence,
 * and the next one.
 */
import type { RecordJson } from '../../../operator/records/schemas.ts'
import { readAnswer, remarksOn } from '../../../operator/records/answer-check.ts'
import { keepMsOf } from '../../../operator/records/changes.ts'
import { guardedRoute } from '../../../operator/shared/operators.ts'
import { badRequest, OPERATOR_PROBLEMS, OperatorProblem } from '../../../operator/shared/problem.ts'
import { timeText } from '../../../operator/shared/query.ts'
import { changesOf, lastChange } from '../audit/rows.ts'
import { a, button, div, h2, li, ol, p, pre, section, strong } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { hidden, postForm, problemBox, reasonField, textField, valuesOf } from '../shell/forms.ts'
import { to } from '../shell/links.ts'
import { live } from '../shell/lists.ts'
import { redirect, screen } from '../shell/page.ts'
import type { Page, Screen, Shown, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { bytes, counted, duration, moment, said, shortId, visible } from '../shell/text.ts'
import { ANSWER_FIELDS, answerFields, answerOf } from './answer-fields.ts'
import { conflictScreen, isConflict, nowOf } from './conflict.ts'
import { askingFacts, recordFacts } from './record.ts'
import { facts } from '../shell/facts.ts'
import { timeline } from './timeline.ts'

/** What the stores keep of a body by default, and room for its encoding. A larger one goes by the command or the API. */
const ANSWER_BYTES_MAX = 2 * 1024 * 1024

/** Of an answer that ends a request, as the operation takes it. */
const STATUS_MIN = 200
const STATUS_MAX = 599

export const guidedPages: readonly Page[] = [
  { method: 'GET', path: '/unknown/:id', role: 'viewer', run: async (visit) => withUnknown(visit, async (record) => way(visit, record)) },
  {
    method: 'GET',
    path: '/unknown/:id/happened',
    role: 'operator',
    run: async (visit) => withUnknown(visit, (record) => happened(visit, record, null))
  },
  { method: 'POST', path: '/unknown/:id/happened', role: 'operator', bodyBytesMax: ANSWER_BYTES_MAX, run: resolve },
  {
    method: 'GET',
    path: '/unknown/:id/not',
    role: 'operator',
    run: async (visit) => withUnknown(visit, (record) => didNot(visit, record, null))
  },
  { method: 'POST', path: '/unknown/:id/not', role: 'operator', run: release },
  { method: 'GET', path: '/unknown/:id/done', role: 'viewer', run: done }
]

/** Whoever comes too late sees what the record is now. */
async function withUnknown (visit: Visit, then: (record: RecordJson) => Shown | Promise<Shown>): Promise<Shown> {
  const id = visit.params.id ?? ''
  const record = await visit.ask('showRecord', { params: { id } })
  if (record instanceof OperatorProblem) return isConflict(record) ? conflictScreen(visit, record, id) : problemScreen(record)
  if (record.state === 'indeterminate') return then(record)
  if (visit.form.size > 0) {
    return conflictScreen(visit, new OperatorProblem('refused', 'Its outcome is known, or it is in flight.'), record.id)
  }
  // Nobody has done anything wrong: the upstream has answered a probe, or somebody else has decided.
  const title = record.state === 'claimed' ? 'It is in flight again' : 'Its outcome is known now'
  return screen(title, await nowOf(visit, record, record.id), GONE_ON)
}

/** A script that refreshes a part of the page shows all of it then. */
const GONE_ON = OPERATOR_PROBLEMS.changed.status

// ------------------------------------------------------------------ 1 to 3

async function way (visit: Visit, record: RecordJson): Promise<Screen> {
  const now = await visit.context.stores.operator.nowMs()
  return screen(`Unknown outcome ${shortId(record.id)}`, [
    visit.query.has('done') ? await lastChange(visit, record.id) : null,
    section({ class: 'card step' }, h2({}, '1. What we know'), timeline(record, now), recordFacts(record)),
    section({ class: 'card step' }, h2({}, '2. Ask the upstream'), asking(visit, record)),
    section(
      { class: 'card step' },
      h2({}, '3. What did you see there?'),
      visit.may('operator') ? decision(record, now) : p({}, 'To say what happened needs the role operator.')
    ),
    await changesOf(visit, record.id, 'Changes by hand')
  ])
}

function asking (visit: Visit, record: RecordJson): Child {
  const byHand = p({},
    'Look in the upstream’s own log or ledger for the request id ',
    said(record.requestId),
    ' at ',
    moment(record.history.find(({ what }) => what === 'sent')?.at ?? record.claimedAt),
    '. One empty search is no proof: the work may be recorded later, or elsewhere.')
  if (record.asking === null) return [byHand, p({}, 'The gateway cannot ask: the route has no probe (idempotency.unknown: probe).')]
  return [
    byHand,
    live(visit, 'asking', facts(askingFacts(record))),
    visit.may('operator') && record.changes.includes('probe')
      ? p({ class: 'actions' }, a({ class: 'button', href: to`/records/${record.id}/probe` }, 'Ask again now …'))
      : null
  ]
}

function decision (record: RecordJson, nowMs: number): Child {
  const early = record.changes.includes('release') ? null : record.releasableAt
  return ol({ class: 'choices' },
    li({}, strong({}, 'It happened. '), 'The work is done there. Retries shall get its answer.',
      p({ class: 'actions' }, a({ class: 'button main', href: to`/unknown/${record.id}/happened` }, 'It happened …'))),
    li({}, strong({}, 'It did not happen. '), 'You have proof that the work was not done. The next retry shall be sent.',
      early === null
        ? p({ class: 'actions' }, a({ class: 'button main', href: to`/unknown/${record.id}/not` }, 'It did not happen …'))
        : p(
          { class: 'notice' },
          `The first sending may still be on its way. This can be said in ${duration(Date.parse(early) - nowMs)}, at `,
          moment(early),
          '.'
        )),
    li({}, strong({}, 'I cannot tell. '), 'Leave it. Retries are refused as before', record.expiresAt === null
      ? '.'
      : [' until ', moment(record.expiresAt), '. Then it is forgotten, and the next retry is sent as a new request.'],
    p({ class: 'actions' }, a({ class: 'button', href: '/unknown' }, 'Back to the queue'))))
}

// ------------------------------------------------------------------ it happened

async function resolve (visit: Visit): Promise<Shown> {
  return withUnknown(visit, async (record) => {
    const seen = { ...record, ...seenOf(visit.form, record) }
    if (visit.form.has('edit')) return happened(visit, seen, null)
    if (visit.form.get('step') !== 'confirm') return checkAnswer(visit, seen, await visit.context.stores.operator.nowMs())
    const result = await visit.ask(
      'resolveRecord',
      {
        params: { id: record.id }, body: { ...answerOf(visit.form), ...seenOf(visit.form, record), reason: visit.form.get('reason') ?? '' }
      }
    )
    if (!(result instanceof OperatorProblem)) return redirect(to`/unknown/${record.id}/done`)
    return isConflict(result) ? conflictScreen(visit, result, record.id) : happened(visit, seen, result)
  })
}

/** What the operator was shown, not what is there now. */
function seenOf (form: URLSearchParams, { owner, attempt }: RecordJson): { readonly owner: string, readonly attempt: number } {
  const said = Number(form.get('attempt'))
  return { owner: form.get('owner') ?? owner, attempt: Number.isInteger(said) && said > 0 ? said : attempt }
}

function happened (visit: Visit, record: RecordJson, problem: OperatorProblem | null): Screen {
  return screen(`It happened: record ${shortId(record.id)}`, [
    problemBox(problem),
    section({ class: 'card' },
      aboutFacts(record),
      p(
        {},
        'Retries of ',
        said(`${record.method} ${record.path}`),
        ' on route ',
        said(record.route),
        ' will get what you write here. Take it from the upstream, and guess nothing.'
      ),
      postForm(visit, { action: to`/unknown/${record.id}/happened` },
        hidden('owner', record.owner),
        hidden('attempt', record.attempt),
        hidden('step', 'check'),
        answerFields(visit.form, problem),
        reasonField(visit.form.get('reason') ?? '', problem),
        p({ class: 'actions' },
          button({ class: 'main', type: 'submit' }, 'Check it against the route'),
          a({ class: 'button quiet', href: to`/unknown/${record.id}` }, 'Back'))))
  ], problem?.status)
}

/** The answer as the store would take it, and what follows. Nothing is written yet. */
function checkAnswer (visit: Visit, record: RecordJson, nowMs: number): Screen {
  const { form } = visit
  const status = Number(form.get('status'))
  if (!Number.isInteger(status) || status < STATUS_MIN || status > STATUS_MAX) {
    return happened(visit, record, badRequest(`status must be a number from ${STATUS_MIN} to ${STATUS_MAX}.`))
  }
  if ((form.get('reason') ?? '').trim() === '') return happened(visit, record, badRequest('reason must say why. It stands in the audit.'))
  const route = guardedRoute(visit.context, record.route)
  const read = readAnswer({ ...answerOf(form), status }, route)
  if (read instanceof OperatorProblem) return happened(visit, record, read)
  const keepMs = keepMsOf(visit.context, keptOf(record, nowMs), form.get('retention') ?? '')
  if (keepMs instanceof OperatorProblem) return happened(visit, record, keepMs)
  const size = read.body?.length ?? 0
  const remarks = remarksOn({ ...answerOf(form), status })
  const lines = (form.get('headers') ?? '').trim()
  return screen(`Confirm: record ${shortId(record.id)} happened`, section({ class: 'card' },
    aboutFacts(record),
    remarks.length === 0 ? null : div({ class: 'notice', role: 'status' }, remarks.map((remark) => p({}, visible(remark)))),
    p(
      {},
      route === null
        ? 'The route is in no configuration any more, so the answer was not compared with it.'
        : `Route ${visible(record.route)} ${form.has('unusual') ? 'would not keep this answer by itself' : 'keeps such an answer'}.`
    ),
    p({ class: 'consequence' }, read.outcome === 'consumed'
      ? `Retries that wait for this record, and all that come, will be told 409 answer-not-kept, with originalStatus ${status}. The request is never sent again while the record is kept. This cannot be changed afterwards.`
      : `Retries that wait for this record, and all that come, will be told: status ${status}, ${size === 0 ? 'no body' : `a body of ${bytes(size)}`}. The request is never sent again while the record is kept. This cannot be changed afterwards.`),
    lines === ''
      ? null
      : pre(
        { class: 'body', tabindex: 0, role: 'region', 'aria-label': 'Header fields' }, visible(lines.replaceAll('\r', ''), { lines: true })
      ),
    size === 0
      ? null
      : pre(
        { class: 'body', tabindex: 0, role: 'region', 'aria-label': 'Body' },
        visible((read.body ?? Buffer.alloc(0)).toString('utf8'), { lines: true })
      ),
    facts([
      ['Reason', said(form.get('reason') ?? '')],
      ['Kept until', [moment(timeText(nowMs + keepMs)), '. A retry after that is sent as a new request.']]
    ]),
    postForm(visit, { action: to`/unknown/${record.id}/happened` },
      hidden('owner', record.owner),
      hidden('attempt', record.attempt),
      hidden('step', 'confirm'),
      ...[...ANSWER_FIELDS, 'reason'].filter((name) => form.has(name)).map((name) => hidden(name, form.get(name) ?? '')),
      p({ class: 'actions' },
        button({ class: 'main', type: 'submit' }, 'Yes, it happened'),
        button({ type: 'submit', name: 'edit', value: '1' }, 'Edit'),
        a({ class: 'button quiet', href: to`/unknown/${record.id}` }, 'Leave it')))))
}

function keptOf ({ route, leaseMs, expiresAt }: RecordJson, nowMs: number): Parameters<typeof keepMsOf>[1] {
  return { about: { route }, leaseMs, keepLeftMs: expiresAt === null ? null : Date.parse(expiresAt) - nowMs }
}

/** With these the upstream's own line is found, so they stay in sight while the operator writes. */
function aboutFacts (record: RecordJson): Child {
  return facts([
    ['Request', said(`${record.method} ${record.path}`)],
    ['Request id', said(record.requestId)],
    ['Claimed', moment(record.claimedAt)]
  ])
}

// ------------------------------------------------------------------ it did not

async function release (visit: Visit): Promise<Shown> {
  return withUnknown(visit, async (record) => {
    const result = await visit.ask(
      'releaseRecord',
      { params: { id: record.id }, body: { ...valuesOf(visit.form, ['retention', 'reason']), ...seenOf(visit.form, record) } }
    )
    if (!(result instanceof OperatorProblem)) return redirect(to`/unknown/${record.id}/done`)
    return isConflict(result)
      ? conflictScreen(visit, result, record.id)
      : didNot(visit, { ...record, ...seenOf(visit.form, record) }, result)
  })
}

function didNot (visit: Visit, record: RecordJson, problem: OperatorProblem | null): Screen {
  return screen(`It did not happen: record ${shortId(record.id)}`, [
    problemBox(problem),
    section({ class: 'card' },
      aboutFacts(record),
      p({ class: 'consequence' }, `Its key will be free: the next retry is then sent to the upstream, as attempt ${record.attempt + 1}. If the work was done after all, it is then done twice, and nothing undoes that.`),
      postForm(visit, { action: to`/unknown/${record.id}/not` },
        hidden('owner', record.owner),
        hidden('attempt', record.attempt),
        textField({
          name: 'retention',
          label: 'Free for',
          hint: 'How long the record says so, such as 24h or 7d. The key stays free afterwards. Empty: as the route says, and never shorter than as an unknown outcome.',
          value: visit.form.get('retention') ?? '',
          problem
        }),
        reasonField(visit.form.get('reason') ?? '', problem),
        p({ class: 'actions' },
          button({ class: 'main', type: 'submit' }, 'Yes, it did not happen'),
          a({ class: 'button quiet', href: to`/unknown/${record.id}` }, 'Leave it'))))
  ], problem?.status)
}

// ------------------------------------------------------------------ done, next

/** The truth of the store, whatever the browser has sent before. */
async function done (visit: Visit): Promise<Screen> {
  const id = visit.params.id ?? ''
  const [record, waiting] = await Promise.all([
    visit.ask('showRecord', { params: { id } }),
    visit.ask('searchRecords', { query: { state: 'indeterminate', order: 'oldest', limit: NEXT_LOOK } })
  ])
  const next = waiting instanceof OperatorProblem ? [] : waiting.records.filter((each) => each.id !== id)
  const more = waiting instanceof OperatorProblem || waiting.next !== null
  return screen('Decided', [
    await lastChange(visit, id),
    record instanceof OperatorProblem
      ? p({ class: 'notice' }, visible(record.detail))
      : section({ class: 'card' }, h2({}, 'What it is now'), recordFacts(record)),
    div({ class: 'card' }, h2({}, 'Next'), next[0] === undefined
      ? p({}, more ? 'Whether other outcomes are unknown could not be read now. The queue says more.' : 'No other outcome is unknown.')
      : [
          p({}, `${more ? `${next.length} or more` : counted(next.length, 'other outcome')} ${more ? 'others are' : next.length === 1 ? 'is' : 'are'} unknown.`),
          p({ class: 'actions' }, a({ class: 'button main', href: to`/unknown/${next[0].id}` }, 'The oldest of them'))
        ],
    p(
      { class: 'actions' },
      a({ class: 'button', href: '/unknown' }, 'To the queue'),
      a({ class: 'button', href: to`/records/${id}` }, 'To the record')
    ))
  ])
}

const NEXT_LOOK = 50
