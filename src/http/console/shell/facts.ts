/** What is known of one thing: names and values. */
import type { VNode } from 'preact'
import { dd, div, dl, dt } from './elements.ts'
import type { Child } from './elements.ts'

export function facts (pairs: ReadonlyArray<readonly [name: string, value: Child]>): VNode {
  return dl({ class: 'facts' }, pairs.map(([name, value]) => div({}, dt({}, name), dd({}, value))))
}
