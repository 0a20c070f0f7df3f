/** Answers that wait for their clients to read them: what they may cost, and in whose share that counts. */
import type { IncomingMessage } from 'node:http'
import type { Holder } from '../core/limit.ts'
import type { ServerOptions } from './server.ts'
import type { Patience, Unread } from './write.ts'

export function patienceOf ({ limits, gateway: { world: { meter } } }: ServerOptions): Patience {
  return { idleMs: limits.clientIdleMs, stalled: () => { meter.idled('answer') } }
}

/** `holder`: absent: the client's address alone is known. */
export function unreadOf (options: ServerOptions, raw: IncomingMessage, holder?: Holder): Unread {
  const { buffered, world: { meter } } = options.gateway
  return {
    ...patienceOf(options),
    hold: bytes => {
      const by = holder ?? { caller: null, peer: options.peers.peerOf(raw) }
      const refusal = buffered.take('answers', bytes, by)
      if (refusal !== null && bytes > NEVER_CUT_BYTES) {
        meter.shed('bufferedBytes', refusal)
        return null
      }
      if (refusal !== null) buffered.force('answers', bytes, by)
      return () => { buffered.release('answers', bytes, by) }
    }
  }
}

/** Any problem of the gateway's own: it says why there was no room. So much for each connection comes to 40 MB at most. */
const NEVER_CUT_BYTES = 4 * 1024
