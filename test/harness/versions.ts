/** What a report of a long run was made with. Asks the servers' binaries, not servers. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findServer } from './binaries.ts'

/** One line each: onceway, Node, Postgres, Redis. */
export function versions (): string[] {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { readonly version: string }
  return [`onceway ${version}`, `Node ${process.version}`, versionOf('postgres', 'postgres'), versionOf('redis', 'redis-server')]
}

function versionOf (server: 'postgres' | 'redis', file: string): string {
  const source = findServer(server)
  if (source.kind !== 'binaries') return `${server} from a container`
  return spawnSync(join(source.directory, file), ['--version'], { encoding: 'utf8' }).stdout.trim().split(' sha=')[0] ?? server
}
