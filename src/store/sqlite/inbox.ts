/** The inbox in the embedded store, on the gateway's thread: encodes messages for the worker and chooses the batcher. */
import { encodeHeaders } from '../../core/protocol/codec.ts'
import type { BoundAnswer, BoundQuestion } from '../../core/inbox/bound.ts'
import type { HealthChange, RouteHealth } from '../../core/inbox/health.ts'
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, NewMessage, PastDelivery } from '../../core/inbox/message.ts'
import type {
  AcceptResult,
  DroppedRequests,
  InboxStore,
  KeptBound,
  KeptRequests,
  KeptUntil,
  MessageAudit,
  MessageFilter,
  Recovered,
  TakeMessages
} from '../../ports/inbox.ts'
import { columnsOfFate } from '../shared/message-fate.ts'
import type { Arrival, InboxCall, MessageCall } from './worker-protocol.ts'

export interface InboxBatchers {
  readonly accept: (call: MessageCall<'messageAccept'>) => Promise<AcceptResult>
  readonly look: (call: MessageCall<'messageLook'>) => Promise<MessageDetail | null>
  readonly settle: (call: MessageCall<'messageSettle'>) => Promise<boolean>
  /** A transaction of its own. */
  readonly single: <Result>(call: InboxCall) => Promise<Result>
}

export class SqliteInbox implements InboxStore {
  readonly #batchers: InboxBatchers

  constructor (batchers: InboxBatchers) {
    this.#batchers = batchers
  }

  async accept (message: NewMessage): Promise<AcceptResult> {
    return this.#batchers.accept({ op: 'messageAccept', message: arrivalOf(message) })
  }

  async acceptAll (messages: readonly NewMessage[]): Promise<AcceptResult[]> {
    return this.#batchers.single({ op: 'messageAcceptAll', messages: messages.map(arrivalOf) })
  }

  look (id: Buffer): Promise<MessageDetail | null> { return this.#batchers.look({ op: 'messageLook', id }) }

  deliveries (id: Buffer): Promise<readonly PastDelivery[]> { return this.#batchers.single({ op: 'messageDeliveries', id }) }

  alive (owner: Buffer, leaseMs: number): Promise<void> { return this.#silent({ op: 'workerAlive', owner, leaseMs }) }

  gone (owner: Buffer): Promise<void> { return this.#silent({ op: 'workerGone', owner }) }

  take (order: TakeMessages): Promise<Delivery[]> { return this.#batchers.single({ op: 'messageTake', order }) }

  postpone (tenant: Buffer, forMs: number, limit: number): Promise<number> {
    return this.#batchers.single({ op: 'messagePostpone', tenant, forMs, limit })
  }

  allow (question: BoundQuestion): Promise<BoundAnswer> { return this.#batchers.single({ op: 'messageAllow', question }) }

  health (): Promise<RouteHealth[]> { return this.#batchers.single({ op: 'messageHealth' }) }

  changeHealth (change: HealthChange): Promise<boolean> { return this.#batchers.single({ op: 'messageChangeHealth', change }) }

  settle (token: DeliveryToken, fate: Fate): Promise<boolean> {
    return this.#batchers.settle({ op: 'messageSettle', token, fate: columnsOfFate(fate) })
  }

  recover (limit: number): Promise<Recovered> { return this.#batchers.single({ op: 'messageRecover', limit }) }

  dueInMs (routes: readonly string[]): Promise<number | null> { return this.#batchers.single({ op: 'messageDue', routes }) }

  depths (): Promise<Depth[]> { return this.#batchers.single({ op: 'messageDepths' }) }

  list (filter: MessageFilter): Promise<MessageDetail[]> { return this.#batchers.single({ op: 'messageList', filter }) }

  retry (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#batchers.single({ op: 'messageRetry', filter, audit })
  }

  discard (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#batchers.single({ op: 'messageDiscard', filter, audit })
  }

  replay (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#batchers.single({ op: 'messageReplay', filter, audit })
  }

  kept (bounds: readonly KeptBound[]): Promise<KeptRequests[]> { return this.#batchers.single({ op: 'messageKept', bounds }) }

  dropRequests (beyond: readonly KeptUntil[], limit: number): Promise<DroppedRequests> {
    return this.#batchers.single({ op: 'messageDropRequests', beyond, limit })
  }

  sweep (limit: number): Promise<number> { return this.#batchers.single({ op: 'messageSweep', limit }) }

  async #silent (call: InboxCall): Promise<void> {
    await this.#batchers.single(call)
  }
}

function arrivalOf ({ request: { method, target, headers, body }, ...message }: NewMessage): Arrival {
  return { ...message, method, target: Buffer.from(target, 'latin1'), headers: encodeHeaders(headers), body }
}
