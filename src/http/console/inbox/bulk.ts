/** One change of many messages. */
import { OperatorProblem } from '../../../operator/shared/problem.ts'
import { bulkPages } from '../shell/bulk.ts'
import { p } from '../shell/elements.ts'
import { tableOf } from '../shell/lists.ts'
import { DISCARD_NEEDS, messageColumns } from './messages.ts'

const RETRY = {
  action: 'retry',
  label: 'Deliver them again',
  consequence: 'They wait again with their full number of attempts. A consumer that has taken one already gets it twice. While a route is paused, nothing is delivered.'
} as const
const DISCARD = {
  action: 'discard',
  label: 'Discard them',
  consequence: 'They are never delivered. The later messages of their groups go on.'
} as const

const REPLAY = {
  action: 'replay',
  label: 'Deliver them once more',
  consequence: 'The consumer has taken each of them, and gets it again with Onceway-Replay: true. Those whose request is deleted are refused. They count in the bounds of the inbox: while it is half full, the change stops, and you can continue it later.'
} as const

export const messageBulk = bulkPages({
  path: '/inbox/changes',
  title: 'Change many messages',
  thing: 'message',
  back: '/inbox/messages',
  select: async (visit, filter) => {
    const found = await visit.ask('selectMessages', { body: filter })
    return found instanceof OperatorProblem ? found : { ...found, sample: tableOf('The oldest of them', messageColumns(), found.sample) }
  },
  // Many are discarded by an admin alone.
  actions: (visit, { state }) => state === 'delivered' ? [REPLAY] : visit.may('admin') ? [RETRY, DISCARD] : [RETRY],
  fields: (visit, { state }) => state === 'delivered' || visit.may('admin') ? null : p({ class: 'hint' }, DISCARD_NEEDS),
  kept: [],
  step: async (visit, order) => visit.ask('changeMessages', { body: order })
})
