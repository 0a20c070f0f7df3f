/** The consumer of a run in mode inbox. It takes deliveries, and refuses some messages for good. */
import { serveMisbehaving } from '../misbehaving.ts'
import type { ConsumerLine } from './consumer.ts'
import { GONE } from './routes.ts'
import { printOf } from './wishes.ts'
import type { Poison } from './wishes.ts'

serveMisbehaving<ConsumerLine>({
  name: 'consumer',

  /** Mostly quick. `slow`: others can begin beside it, if allowed. `slower`: as long as the detection of a dead worker. */
  latencyMs: (pace, random) => {
    if (pace === 'slower') return random.between(2_000, 4_000)
    if (pace === 'slow') return random.between(50, 400)
    const kind = random.float()
    if (kind < 0.03) return random.between(200, 700)
    return kind < 0.15 ? random.between(20, 80) : random.between(1, 8)
  },

  lateMs: (random) => random.between(1_000, 3_000),

  keep: async ({ number, request: { method = '', rawHeaders }, sent, body }, book) => {
    await book.keep({ delivery: number, ...sent, print: printOf(method, sent.target, rawHeaders, body) })
  },

  replied: (delivery, answeredMs, status) => ({ delivery, answeredMs, status }),

  goodStatus: ({ request, sent: { attempt } }, random) => {
    switch (request.headers['x-poison'] as Poison | undefined) {
      case 'gone': return GONE
      case 'refused': return 422
      case 'later': return attempt <= 2 ? 503 : 204
      default: return random.pick([200, 201, 201, 204])
    }
  },

  goesDown: (target) => target.startsWith('/fails/'),

  /** `execution`: as told.ts looks for it. */
  answer: ({ number }, status) => ({
    status,
    fields: status === 503 || status === 429 ? ['Retry-After', '1'] : [],
    body: status === 204 ? '' : JSON.stringify({ execution: number })
  })
})
