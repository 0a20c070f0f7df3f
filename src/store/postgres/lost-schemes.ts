/** Questions about rows of a scheme whose secret is lost (core/record/schemes.ts), and the indexes that answer them. */
import type { LostQuestion } from '../../ports/records.ts'
import { byteas, smallints } from './arrays.ts'
import { BELIEVED, type Session, type Statement } from './statements.ts'
import { isPastMessage } from './inbox-rows.ts'

/**
 * Indexes for a scheme whose secret is lost. Without them every request would read the whole table. They name the literal
 * number, so that the planner knows that the index applies.
 */
export const lostIndexes = (schema: string, number: number): string[] => ['records', 'messages'].flatMap((table) => [
  `create index concurrently if not exists ${table}_lost_${number} on ${schema}.${table} (fingerprint) where scheme <= ${number}`,
  `create index concurrently if not exists ${table}_lost_key_${number} on ${schema}.${table} (key_text) where scheme <= ${number} and key_text is not null`
])

export const lostIndexNames = (schema: string, number: number): string[] => ['records', 'messages'].flatMap((table) => [
  `${schema}.${table}_lost_${number}`,
  `${schema}.${table}_lost_key_${number}`
])

interface LostStatements { readonly algorithms: Statement, readonly question: Statement }

const lostStatements = new Map<number, LostStatements>()

function lostStatementsOf (number: number): LostStatements {
  const known = lostStatements.get(number) ?? {
    algorithms: {
      name: `lost_algorithms_${number}`,
      writes: false,
      text: (schema: string) => `select fp_alg from ${schema}.records where scheme <= ${number} and route = $1 union select fp_alg from ${schema}.messages where scheme <= ${number} and route = $1`
    },
    question: {
      name: `lost_question_${number}`,
      writes: false,
      text: (schema: string) => `select (${(['records', 'messages'] as const).map((table) => {
        const lives = `t.scheme <= ${number} and t.route = $1 and not ${table === 'records' ? `coalesce(t.expires_at <= least(statement_timestamp(), ${BELIEVED}), false)` : isPastMessage('t')}`
        return `exists (select from ${schema}.${table} t where t.key_text = $2 and ${lives})
     or exists (select from ${schema}.${table} t where t.key_text is null and t.fingerprint = any ($4::bytea[]) and (t.fp_alg, t.fingerprint) in (select * from unnest($3::smallint[], $4::bytea[])) and ${lives})`
      }).join('\n     or ')}) as may`
    }
  }
  lostStatements.set(number, known)
  return known
}

export async function lostAlgorithms (session: Session, number: number, route: string): Promise<number[]> {
  const rows = await session.run<{ fp_alg: number }>(lostStatementsOf(number).algorithms, [route])
  return rows.map((row) => row.fp_alg)
}

export async function mayBeLost (session: Session, { lost, route, key, fingerprints }: LostQuestion): Promise<boolean> {
  const [row] = await session.run<{ may: boolean }>(lostStatementsOf(lost).question, [
    route,
    key,
    smallints(fingerprints.map(({ alg }) => alg)),
    byteas(fingerprints.map(({ value }) => value))
  ])
  return row?.may !== false
}
