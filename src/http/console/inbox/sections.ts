/** The section of the console that is about the inbox. */
import type { Section } from '../shell/page.ts'
import { messageBulk } from './bulk.ts'
import { messageChanges, messagePage, messagePages } from './messages.ts'
import { inboxRoutesPage, pausePages } from './routes.ts'

export const INBOX: Section = {
  name: 'Inbox',
  path: '/inbox',
  pages: [inboxRoutesPage, ...pausePages, ...messagePages, ...messageBulk, messagePage, ...messageChanges]
}
