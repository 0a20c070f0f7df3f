/** How long and how large each duration and size may be, and why. The schema says how they are written; this says what they may be. */
import { mistake } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { ConfigSchema } from './schema.ts'
import type { SchemaNode } from './read/schema-words.ts'
import { schemaAt } from './read/schema-walk.ts'
import { eachString } from './read/tree.ts'
import { DURATION_PATTERN, SIZE_PATTERN, parseDuration, parseSize } from './read/units.ts'

interface Range { readonly min: string, readonly max: string, readonly why?: string }

/** By the last two names of a path. */
const RANGES: Readonly<Record<string, Range>> = {
  // Renewed every third of it, with a sixth of it per statement: below a second a slow disk alone would lose leases.
  'idempotency.lease': {
    min: '1s',
    max: '10m',
    why: 'below a second a slow commit loses it; a dead gateway\'s record is held for the whole of it'
  },
  // Timers of Node end at 24.8 days; no client waits longer than this anyway.
  'idempotency.answerWithin': { min: '1ms', max: '24h', why: 'a client must be answered at all' },
  'key.window': { min: '2s', max: '366d' },
  'idempotency.retention': { min: '2s', max: '366d' },
  'idempotency.unknownRetention': { min: '2s', max: '3660d' },
  'backoff.first': { min: '10ms', max: '1h' },
  'backoff.longest': { min: '10ms', max: '24h' },
  'inbox.maxAge': { min: '1s', max: '366d' },
  'inbox.deadRetention': { min: '1m', max: '3660d' },
  'inbox.maxBytes': { min: '1KiB', max: '1024GiB' },
  'verify.tolerance': { min: '1s', max: '24h' },
  'probe.timeout': { min: '10ms', max: '5m', why: 'so long nobody else asks about the record' },
  'probe.confirmAfter': { min: '10ms', max: '30d' },
  'probe.interval': { min: '10ms', max: '24h' },
  'probe.giveUpAfter': { min: '10ms', max: '3660d' },
  'drop.window': { min: '1s', max: '366d' },
  'inFlight.wait': { min: '0s', max: '24h' },
  'keep.requestBytesMax': { min: '1B', max: '256MiB', why: 'guarded bodies are held in memory' },
  'keep.responseBytesMax': { min: '0B', max: '64MiB', why: 'kept answers are held in memory and in a row' },
  'postgres.claimTimeout': { min: '50ms', max: '60s' },
  'copies.ttl': { min: '1s', max: '1d', why: 'the row is the memory, Redis is not' },
  'copies.bytesMax': { min: '0B', max: '16MiB' },
  'issuedKeys.lifetime': { min: '1m', max: '365d', why: 'a client must have the time to use it' },
  'cors.maxAge': { min: '0s', max: '1d', why: 'no browser remembers it longer' },
  'limits.bufferedBytes': { min: '1MiB', max: '64GiB' },
  'limits.unsettledBytes': { min: '1B', max: '64GiB' },
  'limits.recentBytes': { min: '0B', max: '64GiB' },
  'limits.eventLoopDelay': { min: '0s', max: '1m' },
  'limits.requestBody': { min: '1s', max: '1h' },
  'limits.clientIdle': { min: '1s', max: '1h' },
  'limits.tunnelIdle': { min: '1s', max: '7d' },
  'drain.delay': { min: '0s', max: '1h' },
  'drain.timeout': { min: '0s', max: '24h' },
  idleTimeout: { min: '1s', max: '24h', why: 'a silent upstream would hold its place for ever' },
  timeout: { min: '10ms', max: '24h', why: 'an execution must end' },
  connectTimeout: { min: '10ms', max: '5m' },
  keepAlive: { min: '0s', max: '1h' }
}

/** Every duration and size of `tree` (valid by the schema) that is out of its range. */
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

/** undefined: there is none, so that whatever the schema takes is taken. */
export function rangeOf (path: Path): Range | undefined {
  return RANGES[path.slice(-2).join('.')] ?? RANGES[String(path.at(-1))]
}
