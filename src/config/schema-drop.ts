/** The shape of `drop` in the configuration. */
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { DURATION_PATTERN } from './units.ts'

export const Drop = Type.Object({
  store: Type.Enum(['database', 'redis', 'memory', 'bloom'], { default: 'database', description: 'Where marks are kept. database: Postgres, or the embedded store. redis: lost with Redis. memory: in this process alone. bloom: fixed memory, in Redis or, without it, in this process; a new event is taken for a duplicate, and lost, at `errorRate`.' }),
  window: Type.String({ pattern: DURATION_PATTERN, default: '1h', description: 'How long an event that has gone through is remembered; bloom: at least so long, at most twice.' }),
  mark: Type.Enum(['after', 'before'], { default: 'after', description: 'after: an event is marked when the upstream has taken it: it may be doubled and is never lost. before: it is marked when it is forwarded: at most once, and **an event whose forwarding fails is lost**.' }),
  onDuplicate: Type.Enum(['drop', 'flag'], { default: 'drop', description: 'drop: a duplicate is answered and goes no further. flag: it is forwarded with `Onceway-Duplicate: true`.' }),
  status: Type.Enum([200, 201, 202, 204], { default: 200, description: 'What a duplicate is answered with, with an empty body.' }),
  capacity: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000_000_000, description: 'memory: entries, 100000 if not given; the one that was asked for longest ago makes room. bloom: events in one window, 1000000 if not given; with more of them the error rate rises.' })),
  errorRate: Type.Optional(Type.Number({ minimum: 0.000001, maximum: 0.1, description: 'bloom: the share of new events that are taken for duplicates at `capacity`; 0.001 if not given.' }))
}, { additionalProperties: false, description: 'Mode drop: which duplicates go no further. See docs/guides/drop-duplicates.md.' })

export type DropFile = Static<typeof Drop>
