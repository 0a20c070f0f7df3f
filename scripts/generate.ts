/**
 * `npm run generate`: writes the pages of docs/reference and the tables that are made from the sources and from the
 * tests. A test fails when one is out of step.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { withFaultTable } from '../test/broken/rows.ts'
import { withCarriers } from './carriers.ts'
import { dashboardTexts } from './dashboards.ts'
import { problemDocs } from './problem-docs.ts'
import { withMatrix } from './clients.ts'
import { logEventsPage } from './log-events.ts'
import { openapiText } from './openapi.ts'
import { metricsPage } from './metrics.ts'
import { presetsPage } from './presets.ts'
import { rulesPage } from './rules.ts'
import { withWay } from './way.ts'
import { referenceText, schemaText } from '../src/config/reference.ts'

const root = new URL('../', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, root), 'utf8')

for (const folder of ['schema/', 'deploy/grafana/']) mkdirSync(new URL(folder, root), { recursive: true })
writeFileSync(new URL('schema/onceway.schema.json', root), schemaText())
writeFileSync(new URL('schema/openapi.json', root), await openapiText())
writeFileSync(
  new URL('docs/reference/configuration.md', root),
  referenceText(read('scripts/configuration-head.md'), read('scripts/configuration-example.yaml'))
)
writeFileSync(new URL('docs/internals/faults.md', root), withFaultTable(read('docs/internals/faults.md')))
writeFileSync(new URL('docs/concepts/identity.md', root), withCarriers(read('docs/concepts/identity.md')))
writeFileSync(new URL('ARCHITECTURE.md', root), withWay(read('ARCHITECTURE.md')))
writeFileSync(new URL('docs/reference/presets.md', root), presetsPage())
writeFileSync(new URL('docs/reference/metrics.md', root), metricsPage())
writeFileSync(new URL('docs/reference/log-events.md', root), logEventsPage())
writeFileSync(new URL('docs/reference/rules.md', root), rulesPage())
writeFileSync(new URL('src/core/protocol/problem-docs.ts', root), problemDocs(read('docs/reference/http.md')))
for (const page of ['docs/guides/clients.md', 'docs/reference/clients.md']) writeFileSync(new URL(page, root), withMatrix(read(page)))
for (const [name, text] of dashboardTexts()) writeFileSync(new URL(`deploy/grafana/${name}`, root), text)
