/** The versions behind a report of a long run, from the servers' binaries. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findServer, findTool } from './binaries.ts'
import type { Tool } from './binaries.ts'

/** One line each: onceway, Node, Postgres, Redis. */
export function versions (): string[] {
  const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { readonly version: string }
  return [`onceway ${version}`, `Node ${process.version}`, versionOf('postgres', 'postgres'), versionOf('redis', 'redis-server')]
}

/** The first line that a program prints with `flag`, on stdout or stderr. */
export function versionOfTool (tool: Tool, flag: string): string {
  const source = findTool(tool)
  if (source.kind !== 'binaries') return `no ${tool}`
  const { stdout, stderr } = spawnSync(join(source.directory, tool), [flag], { encoding: 'utf8' })
  return `${stdout}${stderr}`.trim().split('\n')[0]?.split(' Copyright')[0] ?? tool
}

function versionOf (server: 'postgres' | 'redis', file: string): string {
  const source = findServer(server)
  if (source.kind !== 'binaries') return `${server} from a container`
  return spawnSync(join(source.directory, file), ['--version'], { encoding: 'utf8' }).stdout.trim().split(' sha=')[0] ?? server
}
