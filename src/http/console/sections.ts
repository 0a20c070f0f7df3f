/** The navigation of the console, in its order. A new part is one more section here. */
import { AUDIT } from './audit/audit.ts'
import { CONFIGURATION, EXPLAIN, OVERVIEW } from './gateway/sections.ts'
import { INBOX } from './inbox/sections.ts'
import { RECORDS, UNKNOWN } from './records/sections.ts'
import { redirect } from './shell/page.ts'
import type { Page, Section } from './shell/page.ts'

export const SECTIONS: readonly Section[] = [OVERVIEW, RECORDS, UNKNOWN, INBOX, EXPLAIN, AUDIT, CONFIGURATION]

export const FIRST_PAGE: Page = { method: 'GET', path: '/', role: 'viewer', run: async () => redirect(OVERVIEW.path) }
