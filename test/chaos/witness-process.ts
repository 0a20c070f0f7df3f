/** The upstream of a run: it executes requests, and answers probes. */
import { callerIn } from './identities.ts'
import { serveMisbehaving } from './misbehaving.ts'
import { ANSWER_WITHIN_MS, LOOKUP_PATH, RESPONSE_BYTES_MAX } from './routes.ts'
import type { Misbehaviour, WitnessLine } from './witness.ts'

/** Its executions by record, as soon as they are on the disk. Requests that were answered as not done are not in it. */
const books = new Map<string, number>()
const NOT_DONE: ReadonlySet<Misbehaviour | null> = new Set(['429', '503'])

serveMisbehaving<WitnessLine>({
  name: 'witness',

  /** Mostly quick. Some long enough to be joined, some longer than a lease. */
  latencyMs: (pace, random) => {
    if (pace === 'slower') return random.between(900, 2_400)
    const kind = random.float()
    const slowShare = pace === 'slow' ? 0.5 : 0.08
    if (kind < slowShare) return random.between(200, 700)
    if (kind < slowShare + 0.01) return random.between(1_000, 2_600)
    return kind < slowShare + 0.2 ? random.between(20, 120) : random.between(1, 12)
  },

  lateMs: (random) => ANSWER_WITHIN_MS + random.between(100, 1_500),

  keep: async ({ number, request, sent, body, misbehaviour }, book) => {
    await book.keep({ execution: number, ...sent, scope: callerIn((name) => request.headers[name] as string | undefined), body })
    if (!NOT_DONE.has(misbehaviour)) books.set(sent.record, number)
  },

  replied: (execution, repliedMs, status, isPage) => ({ execution, repliedMs, status, ...isPage === true && { page: true } }),

  goodStatus: () => 201,

  answer: ({ number, sent: { target } }, status) => {
    const padding = target.includes('large') ? 'x'.repeat(2 * RESPONSE_BYTES_MAX) : ''
    const policy = target.includes('bodiless') ? ['Idempotency-Policy', 'no-body'] : []
    return {
      status,
      fields: ['Link', '</a>', 'Link', '</b>', 'Location', `/things/${number}`, 'Set-Cookie', 's=1', ...policy],
      body: bodyOf(number, padding)
    }
  },

  questions: {
    path: LOOKUP_PATH,
    answer: ({ url = '' }) => {
      const execution = books.get(url.slice(LOOKUP_PATH.length))
      return execution === undefined ? { status: 404, fields: [], body: '{}' } : { status: 200, fields: [], body: bodyOf(execution, '') }
    }
  }
})

function bodyOf (execution: number, padding: string): string {
  return JSON.stringify({ execution, bytes: 'ÿ', padding })
}
