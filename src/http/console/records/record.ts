/** One record: what it is, its time line, what may be done next, its stored answer and its changes by hand. */
import type { RecordJson } from '../../../operator/records/schemas.ts'
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { a, div, h2, p, pre, section } from '../shell/elements.ts'
import type { Child } from '../shell/elements.ts'
import { changesOf, lastChange } from '../audit/rows.ts'
import { facts } from '../shell/facts.ts'
import { headerTable } from '../shell/headers.ts'
import { to } from '../shell/links.ts'
import { screen } from '../shell/page.ts'
import type { Page, Visit } from '../shell/page.ts'
import { problemScreen } from '../shell/problems.ts'
import { bytes, counted, duration, moment, momentOr, said, shortId, visible } from '../shell/text.ts'
import { timeline } from './timeline.ts'
import { reasonCode, stageWords, stateOf } from './words.ts'

export const recordPage: Page = {
  method: 'GET',
  path: '/records/:id',
  role: 'viewer',
  run: async (visit) => {
    const id = visit.params.id ?? ''
    const record = await visit.ask('showRecord', { params: { id } })
    if (record instanceof OperatorProblem) return problemScreen(record, await changesOf(visit, id, 'Changes by hand'))
    return screen(`Record ${shortId(record.id)}`, [
      visit.query.has('done') ? await lastChange(visit, record.id) : null,
      div({ class: 'columns' },
        section({ class: 'card' }, h2({}, 'What it is'), recordFacts(record)),
        section({ class: 'card' }, h2({}, 'What may be done next'), nextSteps(visit, record))),
      section({ class: 'card' }, h2({}, 'Time line'), timeline(record, await visit.context.stores.operator.nowMs())),
      record.state === 'completed' ? await answerSection(visit, record) : null,
      await changesOf(visit, record.id, 'Changes by hand')
    ])
  }
}

export function recordFacts (record: RecordJson): Child {
  return facts([
    ['State', stateOf(record.state)],
    ...(record.reason === null ? [] : [['Unknown because', [reasonCode(record), p({}, stageWords(record))]] as const]),
    ['Route', said(record.route)],
    ['Request', said(`${record.method} ${record.path}`)],
    ['Request id', said(record.requestId)],
    ...(record.traceId === null ? [] : [['Trace id', said(record.traceId)] as const]),
    ['Key', record.key === null ? 'Only its hash is kept' : said(record.key)],
    ['Attempt', record.attempt],
    ['Claimed', [moment(record.claimedAt), ' by ', said(record.instance)]],
    ...(record.leaseLeftMs === null ? [] : [['Lease', record.leaseLeftMs > 0 ? `${duration(record.leaseLeftMs)} left` : 'Over'] as const]),
    ['Settled', momentOr(record.settledAt, 'Not yet')],
    [
      'Answer',
      record.status === null
        ? 'None is stored'
        : `Status ${record.status}${record.bodyBytes === null ? '' : `, ${bytes(record.bodyBytes)}`}`
    ],
    ['Kept until', momentOr(record.expiresAt, 'Not before it has settled')],
    ['Id', said(record.id)],
    ['Key hash', said(record.keyHash)]
  ])
}

export function askingFacts ({ asking }: RecordJson): Array<readonly [string, Child]> {
  if (asking === null) return []
  return [
    ['Asked the upstream', counted(asking.tries, 'time')],
    ['Next question', momentOr(asking.againAt, 'None: the gateway has given up')],
    ...(asking.absentSince === null ? [] : [['“Not found” since', moment(asking.absentSince)] as const])
  ]
}

const NOTHING: Readonly<Partial<Record<RecordJson['state'], string>>> = {
  claimed: 'Nothing now. Its request is in flight: wait until it has settled.',
  undecodable: 'Nothing with this release. Use the release that wrote it.'
}

function nextSteps (visit: Visit, { id, state, changes }: RecordJson): Child {
  const nothing = NOTHING[state]
  if (nothing !== undefined) return p({}, nothing)
  if (state === 'indeterminate') {
    return [
      p({}, 'Nobody knows yet whether the upstream has done the work. Retries are refused until somebody says what happened, or the record is forgotten. So find out at the upstream.'),
      p(
        { class: 'actions' },
        a({ class: 'button main', href: to`/unknown/${id}` }, visit.may('operator') ? 'Find out and decide' : 'What is known')
      )
    ]
  }
  if (!visit.may('operator')) return p({}, 'Its outcome is known. To forget it before its time needs the role operator.')
  return [
    p({}, state === 'released' ? 'The next retry is sent to the upstream.' : 'Retries get what is stored, until it is forgotten.'),
    changes.includes('delete') ? p({ class: 'actions' }, a({ class: 'button', href: to`/records/${id}/delete` }, 'Forget it now …')) : null
  ]
}

async function answerSection (visit: Visit, { id }: RecordJson): Promise<Child> {
  if (!visit.may('reader')) return section({ class: 'card' }, h2({}, 'Stored answer'), p({}, 'To see it needs the role reader.'))
  const answer = await visit.ask('showAnswer', { params: { id } })
  return section({ class: 'card' }, h2({}, 'Stored answer'), answer instanceof OperatorProblem
    ? p({}, visible(answer.detail))
    : [
        p({}, `Status ${answer.status}. ${answer.encoding === 'base64' ? 'Its body is no UTF-8 text, and is shown as base64.' : ''}`),
        headerTable(answer.headers),
        answer.body === '' ? p({}, 'It has no body.') : bodyBox(answer.body)
      ])
}

/** A browser shows no more of it at a useful speed. */
const SHOWN_CHARS_MAX = 64 * 1024

function bodyBox (text: string): Child {
  return [
    pre({ class: 'body', tabindex: 0, 'aria-label': 'Body', role: 'region' }, visible(text.slice(0, SHOWN_CHARS_MAX), { lines: true })),
    text.length > SHOWN_CHARS_MAX
      ? p(
        { class: 'notice' }, `This is its beginning, of ${text.length} characters. The API has all of it.`
      )
      : null
  ]
}
