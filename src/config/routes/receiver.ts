/** A consumer beside the route's upstream: a target of an inbox, or the one that gets what died. */
import type { InboxTarget, UpstreamPolicy } from '../../core/policy/policy.ts'
import { didYouMean } from '../read/nearest.ts'
import { mistake, printable } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'

interface ReceiverFile { readonly upstream: string, readonly path?: string }

const DOT_SEGMENT = /\/(?:\.|%2e){1,2}(?:\/|$)/i

/** `upstreams`: their names. null: they cannot be read. */
export function checkReceiver (receiver: ReceiverFile, path: Path, upstreams: readonly string[] | null): Mistake[] {
  return [
    ...(upstreams === null || upstreams.includes(receiver.upstream)
      ? []
      : [mistake(
          [...path, 'upstream'],
        `"${printable(receiver.upstream)}" names no upstream${didYouMean(receiver.upstream, upstreams)}`
        )]),
    ...(receiver.path !== undefined && DOT_SEGMENT.test(receiver.path.split('?', 1)[0] ?? '')
      ? [mistake([...path, 'path'], 'has a segment of dots, which servers read differently')]
      : [])
  ]
}

/** The file has passed {@link checkReceiver}. */
export function receiverOf (receiver: ReceiverFile, upstreams: readonly UpstreamPolicy[]): Pick<InboxTarget, 'upstream' | 'path'> {
  const upstream = upstreams.find((each) => each.name === receiver.upstream)
  if (upstream === undefined) throw new Error(`no upstream ${receiver.upstream}: the check let it pass`)
  return { upstream, path: receiver.path ?? null }
}
