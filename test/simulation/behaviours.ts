/** Draws what the upstream, or a hop before it, does with each sending of a record. */
import type { Behaviour } from '../crash/outside.ts'
import { PAGES } from '../crash/pages.ts'
import type { Chance } from './chance.ts'
import type { Schedule } from './schedule.ts'
import type { Draft } from './themes.ts'

const QUICK_MS = 60

export function scriptOf (draft: Draft): Behaviour[] {
  return Array.from({ length: draft.chance.weighted([[5, 1], [3, 2], [1, 3]]) }, () => behaviourOf(draft))
}

function behaviourOf ({ chance, upstreamTimeoutMs }: Draft): Behaviour {
  const quickMs = chance.whole(1, QUICK_MS)
  const longMs = chance.whole(QUICK_MS, Math.round(upstreamTimeoutMs * 0.9))
  return chance.weighted<Behaviour>([
    [8, keeping(201, quickMs)],
    [7, keeping(201, longMs)],
    [1, keeping(500, quickMs)],
    [1, { ...keeping(201, quickMs), headers: ['Idempotency-Policy', 'no-body'] }],
    // As short as it may be, whatever the route says.
    [1, { ...keeping(201, quickMs), headers: ['Idempotency-Policy', 'ttl=1'] }],
    [2, { kind: 'answer', status: 429, means: 'release', afterMs: quickMs }],
    [1, { kind: 'answer', status: 503, headers: ['Retry-After', '1'], means: 'release', afterMs: longMs }],
    [1, { kind: 'answer', status: 503, headers: ['Server', 'Varnish'], means: 'unknown', afterMs: longMs }],
    [1, { kind: 'answer', status: 521, headers: ['Server', 'cloudflare'], means: 'release', afterMs: quickMs }],
    [1, { kind: 'answer', status: 502, means: 'unknown', afterMs: quickMs }],
    [1, { kind: 'answer', status: 504, means: 'unknown', afterMs: longMs }],
    [2, { kind: 'refuse' }],
    [3, { kind: 'break', afterMs: longMs }],
    [1, { kind: 'silence' }],
    // After everybody's patience but the upstream's own.
    [1, keeping(201, upstreamTimeoutMs + longMs)],
    [2, { kind: 'stream', afterMs: quickMs }],
    [1, pageOf(chance, chance.one([quickMs, longMs]))]
  ])
}

/** What a hop has not reached was not done. */
export function pageOf (chance: Chance, afterMs: number): Behaviour {
  const page = chance.one(PAGES)
  return { kind: 'page', page, done: page.reached === 'perhaps' && chance.hit(0.6), afterMs }
}

/** What the script of a theme means under a policy that it does not know. */
export function scriptUnder (
  script: readonly Behaviour[],
  { profile, unknown }: Schedule['policy'],
  upstreamTimeoutMs: number
): Behaviour[] {
  const told = profile === 'relay' ? script.map(relayed) : script
  return unknown === 'probe' ? told.map((behaviour) => within(behaviour, upstreamTimeoutMs)) : [...told]
}

/** What the same answer means on a route of the other profile: everything but success is free again, done or not. */
function relayed (behaviour: Behaviour): Behaviour {
  if (behaviour.kind === 'page') return { ...behaviour, done: false }
  return behaviour.kind !== 'answer' || behaviour.status < 300 ? behaviour : { ...behaviour, means: 'release' }
}

function keeping (status: number, afterMs: number): Extract<Behaviour, { kind: 'answer' }> {
  return { kind: 'answer', status, means: 'keep', afterMs }
}

/** Who asks must know how long the upstream can be at work: no longer than its timeout (config/routes/probe.ts). */
function within (behaviour: Behaviour, upstreamTimeoutMs: number): Behaviour {
  return 'afterMs' in behaviour ? { ...behaviour, afterMs: Math.min(behaviour.afterMs, upstreamTimeoutMs) } : behaviour
}
