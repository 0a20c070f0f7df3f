/**
 * What a test needs of the world. `describe('…', needs('postgres', 'redis'), () => …)`: what cannot be had is skipped by
 * name, with the reason, and counted by the runner; with CI=true it is a failure of the file instead.
 */
import { test } from 'node:test'
import { findServer, findTool } from './binaries.ts'

/** 'own …': one that may be killed, restarted and paused, not one that an environment variable points to. */
export type Need = 'postgres' | 'redis' | 'own postgres' | 'own redis' | 'wrk' | 'nginx'

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
  if (need === 'wrk' || need === 'nginx') {
    const source = findTool(need)
    return source.kind === 'none' ? `needs ${need}: ${source.why}` : null
  }
  const server = need.endsWith('postgres') ? 'postgres' : 'redis'
  const variable = givenBy(server)
  if (variable !== null) {
    return need.startsWith('own') ? `needs a ${server} of its own, and ${variable} gives one that is not` : null
  }
  const source = findServer(server)
  return source.kind === 'none' ? `needs ${server}: ${source.why}` : null
}

function givenBy (server: 'postgres' | 'redis'): string | null {
  const variable = server === 'postgres' ? 'TEST_DATABASE_URL' : 'TEST_REDIS_URL'
  return process.env[variable] ? variable : null
}
