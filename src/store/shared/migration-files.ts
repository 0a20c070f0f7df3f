/** The numbered migration files of a database, from migrations/. */
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  readonly number: number
  readonly name: string
  /** The newest migration that a build must know to run on a database with this one. */
  readonly compatibleFrom: number
  /** Postgres: `:schema` stands for the quoted schema. */
  readonly text: string
  /** Nothing but indexes that only make something fast. On a large table they are built beside what writes it (postgres/indexes.ts). */
  readonly indexes?: boolean
}

/** In the order of their numbers. Works from src/ and from dist/, which both lie one level below the package's root. */
export function readMigrationFiles (database: 'postgres' | 'sqlite'): Migration[] {
  const directory = new URL(`../../../migrations/${database}/`, import.meta.url)
  const files = readdirSync(directory).filter((file) => /^\d{4}_[a-z0-9_]+\.sql$/.test(file)).sort()
  return files.map((file) => {
    const text = readFileSync(new URL(file, directory), 'utf8')
    const compatible = /^-- compatible_from: (\d+)$/m.exec(text)
    if (compatible === null) throw new Error(`${file} does not say from which migration on a build is compatible with it`)
    return {
      number: Number(file.slice(0, 4)),
      name: file.slice(0, -'.sql'.length),
      compatibleFrom: Number(compatible[1]),
      text,
      ...(/^-- indexes: concurrently$/m.test(text) && { indexes: true })
    }
  })
}
