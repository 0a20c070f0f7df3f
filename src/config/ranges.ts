/** The range of each duration and size, and why. The schema defines their syntax. */
import { mistake } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { ConfigSchema } from './schema.ts'
import type { SchemaNode } from './read/schema-words.ts'
import { schemaAt } from './read/schema-walk.ts'
import { eachString } from './read/tree.ts'
import { DURATION_PATTERN, SIZE_PATTERN, parseDuration, parseSize } from './read/units.ts'

interface Range { readonly min: string, readonly max: string, readonly why?: string }

/** By the last two names of a path, or by the last one. */
const RANGES: Readonly<Record<string, Range>> = {
  // A lease is renewed every third of it, and a statement may take a sixth. Below a second a slow disk alone would lose leases.
  'idempotency.lease': {
    min: '1s',
    max: '10m',
    why: 'below a second a slow commit loses it, and a dead gateway\'s records stay in flight for all of it'
  },
  // Timers of Node are limited to 24.8 days. No client waits longer than a day.
  'idempotency.answerWithin': { min: '1ms', max: '24h', why: 'a client must get an answer' },
  'key.window': { min: '2s', max: '366d' },
  'idempotency.retention': { min: '2s', max: '366d' },
  'idempotency.unknownRetention': { min: '2s', max: '3660d' },
  'backoff.first': { min: '10ms', max: '1h' },
  'backoff.longest': { min: '10ms', max: '24h' },
  'backoff.schedule': { min: '10ms', max: '30d' },
  'inbox.maxAge': { min: '1s', max: '366d' },
  'inbox.pauseAfter': { min: '1s', max: '366d' },
  'inbox.longestDelay': { min: '1s', max: '366d', why: 'a scheduled message takes room in the inbox until then' },
  'inbox.deadRetention': { min: '1m', max: '3660d' },
  'inbox.keepDelivered': { min: '0s', max: '366d' },
  'inbox.maxKeptBytes': { min: '1KiB', max: '1024GiB' },
  'inbox.maxBytes': { min: '1KiB', max: '1024GiB' },
  'verify.tolerance': { min: '1s', max: '24h' },
  'probe.timeout': { min: '10ms', max: '5m', why: 'until then no other gateway probes the record' },
  'probe.confirmAfter': { min: '10ms', max: '30d' },
  'probe.interval': { min: '10ms', max: '24h' },
  'probe.giveUpAfter': { min: '10ms', max: '3660d' },
  'drop.window': { min: '1s', max: '366d' },
  'inFlight.wait': { min: '0s', max: '24h' },
  'keep.requestBytesMax': { min: '1B', max: '256MiB', why: 'guarded bodies are held in memory' },
  'keep.responseBytesMax': { min: '0B', max: '64MiB', why: 'kept answers are held in memory and in a row' },
  'postgres.claimTimeout': { min: '50ms', max: '60s' },
  'copies.ttl': { min: '1s', max: '1d', why: 'the database keeps the answer longer' },
  'copies.bytesMax': { min: '0B', max: '16MiB' },
  'issuedKeys.lifetime': { min: '1m', max: '365d', why: 'a client must have the time to use it' },
  'cors.maxAge': { min: '0s', max: '1d', why: 'no browser caches it longer' },
  'auth.sessionLifetime': { min: '1m', max: '30d', why: 'a session must end' },
  'limits.bufferedBytes': { min: '1MiB', max: '64GiB' },
  'limits.unsettledBytes': { min: '1B', max: '64GiB' },
  'limits.recentBytes': { min: '0B', max: '64GiB' },
  'limits.eventLoopDelay': { min: '0s', max: '1m' },
  'limits.requestBody': { min: '1s', max: '1h' },
  'limits.clientIdle': { min: '1s', max: '1h' },
  'limits.tunnelIdle': { min: '1s', max: '7d' },
  'drain.delay': { min: '0s', max: '1h' },
  'drain.timeout': { min: '0s', max: '24h' },
  idleTimeout: { min: '1s', max: '24h', why: 'a silent upstream would hold its slot for ever' },
  timeout: { min: '10ms', max: '24h', why: 'an execution must end' },
  connectTimeout: { min: '10ms', max: '5m' },
  keepAlive: { min: '0s', max: '1h' }
}

/** A mistake for each duration and size out of range. The schema has accepted `tree`. */
export function rangeMistakes (tree: unknown): Mistake[] {
  const mistakes: Mistake[] = []
  eachString(tree, (path, text) => {
    const parse = unitOf(schemaAt(ConfigSchema as unknown as SchemaNode, path))
    const range = rangeOf(path)
    if (parse === null || range === undefined) return
    const value = parse(text)
    const fits = value !== null && value >= (parse(range.min) ?? 0) && value <= (parse(range.max) ?? 0)
    if (!fits) {
      mistakes.push(
        mistake(path, `"${text}" must be between ${range.min} and ${range.max}${range.why === undefined ? '' : `: ${range.why}`}`)
      )
    }
  })
  return mistakes
}

function unitOf (schema: SchemaNode | null): ((text: string) => number | null) | null {
  if (schema?.pattern === DURATION_PATTERN) return parseDuration
  return schema?.pattern === SIZE_PATTERN ? parseSize : null
}

/** That of a list is for each of its values. undefined: there is no range. */
export function rangeOf (path: Path): Range | undefined {
  // The other consumers of an inbox have the members of the inbox.
  const at = path.indexOf('targets')
  const names = path.filter((name, index) =>
    typeof name !== 'number' && name !== 'deadLetter' && (at === -1 || index < at || index > at + 1))
  return RANGES[names.slice(-2).join('.')] ?? RANGES[String(names.at(-1))]
}
