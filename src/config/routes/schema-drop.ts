/** The schema of `drop`. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { DURATION_PATTERN } from '../read/units.ts'

export const Drop = Type.Object({
  store: Type.Enum(['database', 'redis', 'memory', 'bloom'], {
    default: 'database',
    description: 'Where marks are kept. database: Postgres, or the embedded store. redis: lost with Redis. memory: in this process only. bloom: fixed memory, in Redis or else in this process. With bloom, a share of `errorRate` of new events is taken for duplicates and lost.'
  }),
  window: Type.String({
    pattern: DURATION_PATTERN,
    default: '1h',
    description: 'How long a forwarded event is remembered. bloom: at least this long, at most twice as long.'
  }),
  mark: Type.Enum(['after', 'before'], {
    default: 'after',
    description: 'after: mark an event when the upstream has accepted it. It may be duplicated and is never lost. before: mark it when it is forwarded. It is sent at most once, and **an event whose forwarding fails is lost**.'
  }),
  onDuplicate: Type.Enum(['drop', 'flag'], {
    default: 'drop',
    description: 'drop: answer a duplicate without forwarding it. flag: forward it with `Onceway-Duplicate: true`.'
  }),
  status: Type.Enum([200, 201, 202, 204], { default: 200, description: 'Status of the answer to a duplicate. The body is empty.' }),
  capacity: Type.Optional(Type.Integer({
    minimum: 1,
    maximum: 1_000_000_000,
    description: 'memory: maximum of entries, default 100000. The least recently used is evicted. bloom: events in one window, default 1000000. With more, the error rate rises.'
  })),
  errorRate: Type.Optional(Type.Number({
    minimum: 0.000001,
    maximum: 0.1,
    description: 'bloom: the share of new events that are taken for duplicates at `capacity`. Default: 0.001.'
  }))
}, { additionalProperties: false, description: 'Mode drop: which duplicates are dropped. See docs/guides/drop-duplicates.md.' })

export type DropFile = Static<typeof Drop>
