/** What states of messages mean, for people. */
import type { VNode } from 'preact'
import type { MessageJson } from '../../../operator/inbox/schemas.ts'
import { span } from '../shell/elements.ts'

export const STATE_WORDS: Readonly<Record<MessageJson['state'], string>> = {
  waiting: 'Waits',
  delivering: 'In delivery',
  delivered: 'Delivered',
  held: 'Held: sent, outcome unknown',
  dead: 'Dead: given up',
  discarded: 'Discarded'
}

export function stateOf (state: MessageJson['state']): VNode {
  return span({ class: `state state-${state}` }, STATE_WORDS[state])
}
