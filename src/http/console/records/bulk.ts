/** One change of many records. */
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { bulkPages } from '../shell/bulk.ts'
import type { BulkAction } from '../shell/bulk.ts'
import { details, summary } from '../shell/elements.ts'
import { tableOf } from '../shell/lists.ts'
import { ANSWER_FIELDS, answerFields, answerOf } from './answer-fields.ts'
import { recordColumns } from './list.ts'

const ANSWER_BYTES_MAX = 2 * 1024 * 1024

const OF_UNKNOWN: readonly BulkAction[] = [
  {
    action: 'probe',
    label: 'Ask the upstream about each',
    consequence: 'Where a route has a probe, its next question is due now. Nothing else changes.'
  },
  {
    action: 'release',
    label: 'None of them happened',
    consequence: 'Every key is free, and the next retry of each is sent. Work that was done after all is then done twice.'
  },
  {
    action: 'resolve',
    label: 'All of them happened',
    consequence: 'Retries that wait, and all that come, are told the one answer below. The requests are not sent again.'
  }
]
const OF_KNOWN: readonly BulkAction[] = [
  {
    action: 'delete',
    label: 'Forget them',
    consequence: 'Their outcomes are forgotten. Retries are sent as new requests, and work can be done twice.'
  }
]

export const recordBulk = bulkPages({
  path: '/records/changes',
  title: 'Change many records',
  thing: 'record',
  back: '/records',
  select: async (visit, filter) => {
    const found = await visit.ask('selectRecords', { body: filter })
    return found instanceof OperatorProblem ? found : { ...found, sample: tableOf('The oldest of them', recordColumns(), found.sample) }
  },
  // Many are forgotten by an admin alone.
  actions: (visit, { state, route }) => state === 'indeterminate'
    ? OF_UNKNOWN.filter(({ action }) => action !== 'probe' || visit.context.config.routes.some(
      ({ name, idempotency }) => (route === undefined || route === name) && idempotency?.unknown === 'probe'
    ))
    : visit.may('admin') ? OF_KNOWN : [],
  fields: (visit, { state }) => state === 'indeterminate'
    ? details({}, summary({}, 'The answer, if all of them happened'), answerFields(visit.form, null, { isBulk: true }))
    : null,
  kept: ANSWER_FIELDS,
  bodyBytesMax: ANSWER_BYTES_MAX,
  step: async (visit, order) => visit.ask('changeRecords', { body: { ...order, ...order.action === 'resolve' && answerOf(visit.form) } })
})
