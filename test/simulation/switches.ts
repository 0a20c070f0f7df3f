/**
 * By which scheme ids are made, to which it changes, and who else asks: callers and hosts that the first rules take for
 * one. Draws only.
 */
import type { Chance } from './chance.ts'
import type { Action, SchemeKind, SimulatedClient } from './schedule.ts'

/** What may come after each of them: newer rules, a secret, another one, none any more. */
const NEXT: Readonly<Record<SchemeKind, readonly SchemeKind[]>> = {
  1: ['2', 'keyed'],
  2: ['keyed'],
  keyed: ['keyed anew', '2'],
  'keyed anew': ['2']
}

type Switch = Extract<Action, { kind: 'switch' }>

export function schemeDrawn (chance: Chance): SchemeKind {
  return chance.weighted([[5, '1'], [3, '2'], [2, 'keyed']])
}

export function switchFrom (chance: Chance, scheme: SchemeKind, lostShare: number): Switch {
  return { kind: 'switch', to: chance.one(NEXT[scheme]), isLost: scheme.startsWith('keyed') && chance.hit(lostShare) }
}

/** Only the second rules tell them all apart. */
const CALLERS: ReadonlyArray<Pick<SimulatedClient, 'scope' | 'besides'>> = [
  { scope: 'Bearer a' },
  { scope: 'Bearer a', besides: ['X-Tenant', 'tenant-1'] },
  { scope: 'Bearer a', besides: ['X-Api-Key', 'key-1'] },
  { scope: '', besides: ['X-Api-Key', 'key-1'] }
]
const HOSTS = [null, null, 'other.test'] as const

/** `named`: another caller too, and not another host alone. */
export function withCaller (chance: Chance, client: SimulatedClient, named: boolean): SimulatedClient {
  const host = chance.one(HOSTS)
  return { ...client, ...named && chance.one(CALLERS), ...host !== null && { host } }
}
