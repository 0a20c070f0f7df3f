/**
 * The servers and tools that a test needs: `describe('…', needs('postgres', 'redis'), () => …)`.
 * If one is missing, the suite is skipped with the reason, and the runner counts it. With CI=true the file fails instead.
 */
import { test } from 'node:test'
import { findPostgresTools, findRelative, findServer, findTool, givenBy, isRelative, isTool, speaksTls } from './binaries.ts'
import type { Relative, Source, Tool } from './binaries.ts'

/**
 * 'own …': a server that may be killed, restarted and paused, not one from an environment variable.
 * 'postgres tools': an own server that can also be copied, and whose files are accessible.
 * 'redis sentinel', 'redis cluster', 'redis tls': a local redis-server program (the servers exchange their ports), and openssl.
 */
export type Need = 'postgres' | 'redis' | 'own postgres' | 'own redis' | 'postgres tools' | RedisProgram | Relative | Tool
type RedisProgram = 'redis sentinel' | 'redis cluster' | 'redis tls'

export function needs (...wanted: readonly Need[]): { skip: string } | { skip: false } {
  const reasons = wanted.map(missing).filter((reason) => reason !== null)
  if (reasons.length === 0) return { skip: false }
  const why = reasons.join('; ')
  if (process.env.CI === 'true') throw new Error(`CI=true allows no skipped test: ${why}`)
  // The runner counts skipped tests, not skipped suites: this one stands for all of them.
  test(`what needs ${wanted.join(' and ')}`, { skip: why }, () => {})
  return { skip: why }
}

function missing (need: Need): string | null {
  if (isRelative(need)) return whyNot(need, findRelative(need))
  if (isTool(need)) return whyNot(need, findTool(need))
  if (need === 'postgres tools') return missing('own postgres') ?? whyNot(need, findPostgresTools())
  if (need === 'redis sentinel' || need === 'redis cluster' || need === 'redis tls') return missingProgram(need)
  const server = need.endsWith('postgres') ? 'postgres' : 'redis'
  const variable = givenBy(server)
  if (variable !== null) {
    return need.startsWith('own') ? `needs a ${server} of its own, and ${variable} gives one that is not` : null
  }
  return whyNot(server, findServer(server))
}

function whyNot (name: string, source: Source): string | null {
  return source.kind === 'none' ? `needs ${name}: ${source.why}` : null
}

function missingProgram (need: RedisProgram): string | null {
  const source = findServer('redis')
  if (source.kind === 'none') return `needs ${need}: ${source.why}`
  if (givenBy('redis') !== null) return `needs ${need}, and TEST_REDIS_URL gives one server that is not ours`
  if (source.kind === 'docker') return `needs ${need}: redis-server as a program, and not in a container`
  if (need !== 'redis tls') return null
  const openssl = findTool('openssl')
  if (openssl.kind === 'none') return `needs ${need}: ${openssl.why}`
  return speaksTls(source.directory) ? null : `needs ${need}: this redis-server was built without TLS`
}
