/**
 * What the primary and its workers say to each other, by the channel that Node gives them. Plain values only: they go
 * through the structured clone, which keeps a Map a Map.
 */
import type { UnderWay } from '../serving.ts'
import type { Config } from '../../config/config.ts'
import type { LeaseRange } from '../../config/compare/leases.ts'
import type { Readiness } from '../../http/admin.ts'
import type { Snapshot } from '../../telemetry/aggregate.ts'

/** What a worker can be asked, and what it answers. */
export interface Answers {
  readonly readiness: Readiness
  readonly metrics: Snapshot
  readonly underWay: UnderWay
  /** From now on this configuration counts. null: it does; else why it does not. */
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

/** The first word to a worker, after its own. `leases`: all that the gateway has known since its start. */
export interface Start {
  readonly kind: 'start'
  /** From 1 on; a successor has the number of the one before. */
  readonly worker: number
  readonly config: Config
  readonly leases: LeaseRange
}

export type ToWorker =
  | Start
  | { readonly kind: 'ask', readonly id: number, readonly question: Question }
  /** Drain and end (docs/guides/deploy-in-containers.md). */
  | { readonly kind: 'drain' }

export interface Listening { readonly url: string, /** Where records live, for the banner. */ readonly where: readonly string[] }

export interface Failed { readonly message: string, readonly exitCode: 1 | 2 }

export type FromWorker =
  /** It listens to the channel. */
  | { readonly kind: 'hello' }
  | { readonly kind: 'listening' } & Listening
  /** It cannot start, and ends. */
  | { readonly kind: 'failed' } & Failed
  | { readonly kind: 'answer', readonly id: number, readonly answer: Answers[About] }
