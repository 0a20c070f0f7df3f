/** The sections of the console that are about the gateway itself. */
import type { Section } from '../shell/page.ts'
import { CONFIGURATION_PATH, configurationPage } from './configuration.ts'
import { EXPLAIN_PATH, explainPages } from './explain.ts'
import { OVERVIEW_PATH, overviewPage } from './overview.ts'

export const OVERVIEW: Section = { name: 'Overview', path: OVERVIEW_PATH, pages: [overviewPage] }
export const EXPLAIN: Section = { name: 'Explain', path: EXPLAIN_PATH, pages: explainPages }
export const CONFIGURATION: Section = { name: 'Configuration', path: CONFIGURATION_PATH, pages: [configurationPage] }
