/** What happens to the calls of one cell, for each column of the matrix that a client meets by itself. */
import { randomUUID } from 'node:crypto'
import type { Client, Ending } from './client.ts'
import { Line } from './line.ts'
import type { SoloColumn } from './table.ts'
import type { Order, Upstream } from './upstream.ts'

/** A client's own time-out where it is to strike, and where it is not. */
const SHORT_MS = 1_000
const TRIES_MAX = 5
const LONG_MS = 30_000
/** So long does the first request go on after its duplicate has come. */
const MEANWHILE_MS = 300
/** Well below `inFlight.wait`. */
const WITHIN_MS = 2_000

/** One client on its own line, with one key. */
export interface Cell {
  readonly order: Order
  readonly line: Line
  /** The machine was too busy for what was to be shown. */
  late: boolean
  readonly call: (more?: { readonly amount?: number, readonly timeoutMs?: number }) => Promise<Ending>
  readonly close: () => Promise<void>
}

export async function cellOf (client: Client, upstream: Upstream, target: number): Promise<Cell> {
  const key = randomUUID()
  const line = new Line(target)
  await line.listen()
  return {
    order: upstream.order(key),
    line,
    late: false,
    call: async ({ amount = 1, timeoutMs = LONG_MS } = {}) => client.send({ url: line.url, key, amount, timeoutMs }),
    close: async () => line.close()
  }
}

/** The answer waits until it is released. */
export function held (order: Order): () => void {
  const gate = Promise.withResolvers<void>()
  order.deed = async () => { await gate.promise; return order.done }
  return gate.resolve
}

interface Played { readonly cell: Cell, readonly ending: Ending }

/**
 * Plays one column, each time in a new cell. A machine may be so busy that it is slower than the time-out of a client, or than
 * the gateway's own wait: then the cell does not show what it is to show, and is played again.
 */
export async function played (client: Client, upstream: Upstream, target: number, column: SoloColumn): Promise<Played> {
  for (let tries = 1; ; tries++) {
    const cell = await cellOf(client, upstream, target)
    const ending = await PLAYS[column](cell, SHORT_MS * 2 ** (tries - 1))
    if (!cell.late || tries === TRIES_MAX) return { cell, ending }
    await cell.close()
  }
}

/** What the caller of the cell ends with. */
const PLAYS: Readonly<Record<SoloColumn, (cell: Cell, timeoutMs: number) => Promise<Ending>>> = {
  first: async ({ call }) => call(),
  lost: async ({ line, call }) => {
    line.losing = 1
    return call()
  },
  timeout: async (cell, timeoutMs) => {
    const { order, line, call } = cell
    const release = held(order)
    const ending = call({ timeoutMs })
    await Promise.race([line.seen('requests', 2), ending])
    release()
    // Over before anything was sent, or in a retry too, whose answer was there.
    if ('error' in await ending) {
      // The line is in this process, which may have been held up: it sees what was sent meanwhile.
      await Promise.race([line.seen('requests', 2), new Promise((resolve) => setTimeout(resolve, MEANWHILE_MS))])
      cell.late = line.requests !== 1
    }
    if (line.requests > 0) await order.seen('executed', 1)
    return ending
  },
  inFlight: async (cell) => {
    let cameAt = 0
    const ending = await duplicated(cell, async ({ line }) => {
      await line.seen('requests', 2)
      cameAt = performance.now()
      await new Promise((resolve) => setTimeout(resolve, MEANWHILE_MS))
    })
    cell.late = performance.now() - cameAt > WITHIN_MS
    return ending
  },
  // The gateway has waited as long as it does, and has answered the duplicate.
  long: async (cell) => duplicated(cell, async ({ line }, duplicate) => Promise.race([line.seen('answers', 1), duplicate])),
  other: async ({ call }) => {
    await call()
    return call({ amount: 2 })
  },
  failed: async ({ order, call }) => {
    order.deed = () => order.broken
    return call()
  },
  notReady: async ({ order, call }) => {
    order.deed = (nth) => nth === 1 ? order.notReady : order.done
    return call()
  },
  brokenOff: async ({ order, call }) => {
    order.deed = (nth) => nth === 1 ? order.breaksOff : order.done
    return call()
  },
  halfway: async ({ order, call }) => {
    order.deed = (nth) => nth === 1 ? order.breaksOffHalfway : order.done
    return call()
  }
}

async function duplicated (cell: Cell, meanwhile: (cell: Cell, duplicate: Promise<Ending>) => Promise<unknown>): Promise<Ending> {
  const release = held(cell.order)
  const first = cell.call()
  await Promise.race([cell.order.seen('sent', 1), first])
  const duplicate = cell.call()
  await meanwhile(cell, duplicate)
  release()
  await first
  return duplicate
}
