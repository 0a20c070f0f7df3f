/** What an operator looks for, in the tables of records and of messages alike. */
import type { SQLInputValue } from 'node:sqlite'
import type { MessageFilter } from '../../ports/inbox.ts'
import type { RecordFilter } from '../../ports/records.ts'

/** Statements differ by what is wanted, never by how much of it. */
export function wantedOf (
  { id, keyHashes, route, state, attempt }: Pick<MessageFilter, 'id' | 'keyHashes' | 'route' | 'attempt'> & {
    readonly state?: RecordFilter['state'] | MessageFilter['state']
  }
): { readonly conditions: string[], readonly values: SQLInputValue[] } {
  const all: ReadonlyArray<readonly [string, SQLInputValue | undefined]> = [
    ['id = ?', id],
    [
      'key_hash in (select unhex(value) from json_each(?))',
      keyHashes === undefined ? undefined : JSON.stringify(keyHashes.map((each) => Buffer.from(each).toString('hex')))
    ],
    ['route = ?', route],
    ['state = ?', state],
    ['attempt = ?', attempt]
  ]
  const wanted = all.filter((entry): entry is readonly [string, SQLInputValue] => entry[1] !== undefined)
  return { conditions: wanted.map(([condition]) => condition), values: wanted.map(([, value]) => value) }
}
