/** The section of the console that is about the inbox. */
import type { Section } from '../shell/page.ts'
import { messageBulk } from './bulk.ts'
import { groupsPage } from './groups.ts'
import { messageChanges, messagePage } from './message.ts'
import { messagePages } from './messages.ts'
import { inboxRoutesPage, pausePages } from './routes.ts'

export const INBOX: Section = {
  name: 'Inbox',
  path: '/inbox',
  pages: [inboxRoutesPage, groupsPage, ...pausePages, ...messagePages, ...messageBulk, messagePage, ...messageChanges]
}
