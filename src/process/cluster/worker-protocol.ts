/**
 * Messages between the primary and its workers, over Node's channel. They are plain values, because they are structured
 * clones. A Map stays a Map.
 */
import type { UnderWay } from '../serving.ts'
import type { Config } from '../../config/config.ts'
import type { LeaseRange } from '../../config/derived.ts'
import { PRESETS } from '../../core/key/presets.ts'
import type { KeySource } from '../../core/policy/key-source.ts'
import type { Readiness } from '../../http/admin.ts'
import type { Snapshot } from '../../telemetry/aggregate.ts'

/** The questions to a worker, and the types of the answers. */
export interface Answers {
  readonly readiness: Readiness
  readonly metrics: Snapshot
  readonly underWay: UnderWay
  /** The worker takes this configuration. null: it has taken it. Else the reason why not. */
  readonly take: string | null
}

export type About = keyof Answers

interface Questions {
  readonly readiness: { readonly about: 'readiness' }
  readonly metrics: { readonly about: 'metrics' }
  readonly underWay: { readonly about: 'underWay' }
  readonly take: { readonly about: 'take', readonly config: Config }
}

export type Question<A extends About = About> = Questions[A]

/** The first message to a worker, after its hello. `leases`: all leases that the gateway has known since its start. */
export interface Start {
  readonly kind: 'start'
  /** Counted from 1. A successor has the number of its predecessor. */
  readonly worker: number
  readonly config: Config
  readonly leases: LeaseRange
}

export type ToWorker =
  | Start
  | { readonly kind: 'ask', readonly id: number, readonly question: Question }
  /** Drain and end (docs/guides/deploy-in-containers.md). */
  | { readonly kind: 'drain' }

export interface Listening { readonly url: string, /** Where the records are. The banner shows it. */ readonly where: readonly string[] }

export interface Failed { readonly message: string, readonly exitCode: 1 | 2 }

export type FromWorker =
  /** The worker listens to the channel. */
  | { readonly kind: 'hello' }
  | { readonly kind: 'listening' } & Listening
  /** The worker cannot start, and ends. */
  | { readonly kind: 'failed' } & Failed
  | { readonly kind: 'answer', readonly id: number, readonly answer: Answers[About] }

/** As it is sent. Presets have functions, which cannot be cloned. So a preset goes by its name. */
export function sentConfig (config: Config): Config {
  return withSources(config, (source) => source.kind === 'preset'
    ? { kind: 'preset', preset: { name: source.preset.name, keys: [], scope: source.preset.scope, fingerprint: source.preset.fingerprint } }
    : source)
}

/** The config of {@link sentConfig}, with its presets whole. */
export function receivedConfig (config: Config): Config {
  return withSources(config, (source) => source.kind === 'preset'
    ? { kind: 'preset', preset: PRESETS.get(source.preset.name) ?? source.preset }
    : source)
}

function withSources (config: Config, each: (source: KeySource) => KeySource): Config {
  return {
    ...config,
    routes: config.routes.map((route) => {
      const { idempotency } = route
      if (idempotency === null) return route
      return { ...route, idempotency: { ...idempotency, key: { ...idempotency.key, sources: idempotency.key.sources.map(each) } } }
    })
  }
}
