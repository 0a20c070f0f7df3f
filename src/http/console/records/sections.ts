/** The sections of the console that are about records. */
import type { Section } from '../shell/page.ts'
import { recordBulk } from './bulk.ts'
import { recordChanges } from './changes.ts'
import { guidedPages } from './guided.ts'
import { recordPages } from './list.ts'
import { unknownQueue } from './queue.ts'
import { recordPage } from './record.ts'

export const RECORDS: Section = {
  name: 'Records', path: '/records', pages: [...recordPages, ...recordBulk, recordPage, ...recordChanges]
}
export const UNKNOWN: Section = { name: 'Unknown outcomes', path: '/unknown', pages: [unknownQueue, ...guidedPages] }
