/** `onceway migrate`: applies missing migrations to the configured database. */
import { migratePostgres } from '../store/postgres/open.ts'
import { openSqlite } from '../store/sqlite/store.ts'
import { CONFIG_OPTIONS, configFor, readOptions } from './command.ts'
import type { Command, Terminal } from './command.ts'

export const migrate: Command = {
  help: `usage: onceway migrate [--config FILE] [--data-dir DIR]

Applies missing migrations to the configured database. Running gateways continue to serve: after every migration, the previous
release can still use the database. For deployments with \`migrate: check\`.

examples:
  DATABASE_URL=postgres://owner@db/app onceway migrate
  onceway migrate --config onceway.yaml`,
  run: runMigrate
}

async function runMigrate (args: readonly string[], { env, out }: Terminal): Promise<number> {
  const { stores: { postgres }, dataDir } = configFor(readOptions(args, CONFIG_OPTIONS), env)
  if (postgres === null) {
    // Opening the embedded store migrates it. If a gateway is running, it has done that already.
    const store = await openSqlite({ dataDir, exclusive: true })
    await store.close()
    out(`The embedded store under ${dataDir} is up to date.`)
    return 0
  }
  const { applied } = await migratePostgres(postgres)
  out(applied.length === 0 ? `Schema ${postgres.schema} is up to date.` : `Applied to schema ${postgres.schema}: ${applied.join(', ')}.`)
  return 0
}
