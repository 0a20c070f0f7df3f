/** What Postgres reads for a search: plans of the very statements that the store sends, run once more with `explain`. */
import type { TestContext } from 'node:test'
import { Client } from 'pg'
import type { RecordSearch } from '../../src/ports/operator.ts'
import { openPostgres } from '../../src/store/postgres/open.ts'

interface Sent { readonly text: string, readonly values?: unknown[] }

interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Shared Hit Blocks': number
  readonly 'Shared Read Blocks': number
  readonly Plans?: readonly Plan[]
}

export interface Read {
  /** Pages of 8 KiB. */
  readonly pages: number
  /** Tables that were read from end to end. */
  readonly whole: readonly string[]
}

/** By the name of the search. */
export async function pagesRead (
  t: TestContext, database: string, searches: Readonly<Record<string, Partial<RecordSearch>>>
): Promise<Record<string, Read>> {
  const store = await openPostgres({ url: database, schema: 'onceway', prepared: true, migrate: 'check', claimTimeoutMs: 5_000 })
  const client = new Client({ connectionString: database })
  await client.connect()
  const read: Record<string, Read> = {}
  try {
    for (const [name, search] of Object.entries(searches)) {
      const spy = t.mock.method(Client.prototype, 'query')
      await store.operator.searchRecords({ order: 'newest', limit: 50, after: null, withinMs: 2_000, ...search })
      const sent = spy.mock.calls.map(({ arguments: [first] }) => first as unknown as Sent)
      spy.mock.restore()
      read[name] = await planned(client, sent)
    }
  } finally {
    await client.end()
    await store.close()
  }
  return read
}

async function planned (client: Client, sent: readonly Sent[]): Promise<Read> {
  const plans: Plan[] = []
  for (const { text, values } of sent) {
    const isSearch = text.includes('.records r')
    const { rows: [row] } = await client.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
      `${isSearch ? 'explain (analyze, buffers, format json) ' : ''}${text}`, values
    )
    if (isSearch && row !== undefined) plans.push(row['QUERY PLAN'][0].Plan)
  }
  if (plans.length === 0) throw new Error('no statement of a search was seen')
  return {
    pages: plans.reduce((sum, plan) => sum + plan['Shared Hit Blocks'] + plan['Shared Read Blocks'], 0),
    whole: plans.flatMap(nodesOf).filter((node) => node['Node Type'] === 'Seq Scan').map((node) => node['Relation Name'] ?? '')
  }
}

function nodesOf (plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)]
}
