/** The inbox in the embedded store, as the gateway's thread has it: what a message is on the wire, and which lane it takes. */
import { encodeHeaders } from '../../core/protocol/codec.ts'
import type { Delivery, DeliveryToken, Depth, Fate, MessageDetail, NewMessage } from '../../core/inbox/message.ts'
import type { AcceptResult, InboxStore, MessageAudit, MessageFilter, Recovered, TakeMessages } from '../../ports/inbox.ts'
import { columnsOfFate } from '../shared/message-fate.ts'
import type { Arrival, InboxCall, MessageCall } from './worker-protocol.ts'

export interface InboxLanes {
  readonly accept: (call: MessageCall<'messageAccept'>) => Promise<AcceptResult>
  readonly look: (call: MessageCall<'messageLook'>) => Promise<MessageDetail | null>
  readonly settle: (call: MessageCall<'messageSettle'>) => Promise<boolean>
  /** A transaction of its own. */
  readonly single: <Result>(call: InboxCall) => Promise<Result>
}

export class SqliteInbox implements InboxStore {
  readonly #lanes: InboxLanes

  constructor (lanes: InboxLanes) {
    this.#lanes = lanes
  }

  async accept (message: NewMessage): Promise<AcceptResult> {
    return this.#lanes.accept({ op: 'messageAccept', message: arrivalOf(message) })
  }

  async acceptAll (messages: readonly NewMessage[]): Promise<AcceptResult[]> {
    return this.#lanes.single({ op: 'messageAcceptAll', messages: messages.map(arrivalOf) })
  }

  look (id: Buffer): Promise<MessageDetail | null> { return this.#lanes.look({ op: 'messageLook', id }) }

  alive (owner: Buffer, leaseMs: number): Promise<void> { return this.#silent({ op: 'workerAlive', owner, leaseMs }) }

  gone (owner: Buffer): Promise<void> { return this.#silent({ op: 'workerGone', owner }) }

  take (order: TakeMessages): Promise<Delivery[]> { return this.#lanes.single({ op: 'messageTake', order }) }

  settle (token: DeliveryToken, fate: Fate): Promise<boolean> {
    return this.#lanes.settle({ op: 'messageSettle', token, fate: columnsOfFate(fate) })
  }

  recover (limit: number): Promise<Recovered> { return this.#lanes.single({ op: 'messageRecover', limit }) }

  dueInMs (routes: readonly string[]): Promise<number | null> { return this.#lanes.single({ op: 'messageDue', routes }) }

  depths (): Promise<Depth[]> { return this.#lanes.single({ op: 'messageDepths' }) }

  list (filter: MessageFilter): Promise<MessageDetail[]> { return this.#lanes.single({ op: 'messageList', filter }) }

  retry (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#lanes.single({ op: 'messageRetry', filter, audit })
  }

  discard (filter: MessageFilter, audit: MessageAudit): Promise<MessageDetail[]> {
    return this.#lanes.single({ op: 'messageDiscard', filter, audit })
  }

  sweep (limit: number): Promise<number> { return this.#lanes.single({ op: 'messageSweep', limit }) }

  async #silent (call: InboxCall): Promise<void> {
    await this.#lanes.single(call)
  }
}

function arrivalOf ({ request: { method, target, headers, body }, ...message }: NewMessage): Arrival {
  return { ...message, method, target: Buffer.from(target, 'latin1'), headers: encodeHeaders(headers), body }
}
