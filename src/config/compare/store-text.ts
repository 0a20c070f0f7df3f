/** Where the records of a configuration are, in words. */
import type { Config } from '../config.ts'

/** Which database, without credentials: a new password does not move anything. */
export function storeText ({ stores: { postgres }, dataDir }: Pick<Config, 'stores' | 'dataDir'>): string {
  if (postgres === null) return `the embedded store under ${dataDir}`
  const { host, pathname } = new URL(postgres.url)
  return `Postgres ${host}${pathname}, schema ${postgres.schema}`
}
