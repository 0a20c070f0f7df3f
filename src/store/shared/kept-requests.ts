/** What a route keeps of delivered messages, for drivers that count in code. */
import type { KeptBound, KeptRequests } from '../../ports/inbox.ts'

interface Kept { readonly bytes: number, readonly untilMs: number }

/** `oldest`: what the route keeps, oldest first. It is read only as far as it is beyond the bound, if `total` is known. */
export function keptOf (
  bound: KeptBound,
  oldest: Iterable<Kept>,
  total: Pick<KeptBound, 'messages' | 'bytes'> = totalOf(oldest)
): KeptRequests {
  let { messages, bytes } = total
  let beyondMs: number | null = null
  if (messages > bound.messages || bytes > bound.bytes) {
    for (const each of oldest) {
      messages--
      bytes -= each.bytes
      beyondMs = each.untilMs
      if (messages <= bound.messages && bytes <= bound.bytes) break
    }
  }
  return { route: bound.route, ...total, beyondMs }
}

function totalOf (kept: Iterable<Kept>): Pick<KeptBound, 'messages' | 'bytes'> {
  let [messages, bytes] = [0, 0]
  for (const each of kept) {
    messages++
    bytes += each.bytes
  }
  return { messages, bytes }
}
