/** What the operators' functions stand on. Opened by the process with the admin port, or by a command. */
import { inboxesOf } from '../../core/inbox/targets.ts'
import type { Config } from '../../config/config.ts'
import type { GuardedRoute } from '../../core/policy/policy.ts'
import type { InboxStore } from '../../ports/inbox.ts'
import type { LockStore } from '../../ports/locks.ts'
import type { OperatorStore } from '../../ports/operator.ts'
import type { RecordStore } from '../../ports/records.ts'

export interface OperatorStores {
  readonly records: RecordStore
  readonly inbox: InboxStore
  readonly operator: OperatorStore
  readonly locks: LockStore
  readonly secrets: () => readonly Buffer[]
  /** How far ahead the gateways have found the store's clock. 0: they trust it. */
  readonly aheadMs: number
}

export interface OperatorContext {
  readonly stores: OperatorStores
  /** The configuration that runs. */
  readonly config: Config
  /** Signs what an operator is shown and sends back. The same at every gateway that shares a session key. */
  readonly signingKey: Buffer
  /** A record was deleted: what Redis has of it is to be forgotten. */
  readonly deleted: (id: Buffer, leaseMs: number) => void
}

/** `name`: of a route, or of a target's inbox, which is delivered as the target says. */
export function guardedRoute ({ config }: Pick<OperatorContext, 'config'>, name: string): GuardedRoute | null {
  const route = [...config.routes, ...inboxesOf(config.routes)].find((each) => each.name === name && each.idempotency !== null)
  return route === undefined || route.idempotency === null ? null : { ...route, idempotency: route.idempotency }
}
