/** The targets of an inbox: what they have from their route, their checks and their policy. */
import type { Condition, InboxPolicy, InboxTarget, UpstreamPolicy } from '../../core/policy/policy.ts'
import { DEAD_LETTER } from '../../core/inbox/targets.ts'
import { mistake, pathText } from '../read/problem.ts'
import type { Mistake, Path } from '../read/problem.ts'
import { isTree, valueAt } from '../read/tree.ts'
import { parseSize } from '../read/units.ts'
import { checkDeadLetter, deadLetterOf } from './dead-letter.ts'
import { attemptsOfSchedule, checkDelivered, deliveredOf, valueSourceOf } from './delivered.ts'
import { checkReceiver, receiverOf } from './receiver.ts'
import type { IdempotencyFile } from './schema.ts'
import { DELIVERED_NAMES } from './schema-inbox.ts'
import type { InboxFile, TargetFile } from './schema-inbox.ts'

/**
 * A member that a target does not have is its route's, as a whole: a secret and its previous one are of one consumer. The number of
 * attempts that belongs to a schedule is not of other pauses.
 */
export function spreadTargets (inbox: Record<string, unknown>): void {
  if (!isTree(inbox.targets)) return
  for (const target of Object.values(inbox.targets)) {
    if (!isTree(target)) continue
    attemptsOfSchedule(target)
    const hasOtherPauses = Object.hasOwn(target, 'backoff') && Array.isArray(valueAt(inbox, ['backoff', 'schedule']))
    const inherited = DELIVERED_NAMES.filter((name) => Object.hasOwn(inbox, name) && !(name === 'maxAttempts' && hasOtherPauses))
    for (const name of inherited) if (!Object.hasOwn(target, name)) target[name] = structuredClone(inbox[name])
    attemptsOfSchedule(target)
  }
}

/** `upstreams`: their names. null: they cannot be read. */
export function checkTargets (file: IdempotencyFile, path: Path, upstreams: readonly string[] | null): Mistake[] {
  const targets = file.inbox?.targets
  if (targets === undefined) return []
  // A request that is executed at once is for one upstream.
  if (file.mode !== 'inbox') return [mistake(path, 'can be there with mode inbox only', 'key')]
  return [...checkSize(file, path), ...Object.entries(targets).flatMap(([name, target]) => [
    ...(name === DEAD_LETTER ? [mistake([...path, name], 'is the name of the inbox of what dies', 'key')] : []),
    ...checkReceiver(target, [...path, name], upstreams),
    ...checkDelivered(target, file, [...path, name]),
    ...checkDeadLetter(target, file, [...path, name, 'deadLetter'], upstreams),
    ...Object.keys(target.when ?? {})
      .filter((written) => valueSourceOf(written) === null)
      .map((written) => mistake([...path, name, 'when', written], 'is neither header:NAME nor json:/pointer', 'key')),
    ...(file.inbox?.batch === 'split' && target.maxDepth < 2
      ? [mistake([...path, name, 'maxDepth'], 'must be at least 2 with batch: split: a batch of two events would never be accepted')]
      : [])
  ])]
}

/** An acceptance sends the body once for each target, in one statement. Postgres takes a gigabyte, and others wait behind it. */
const WRITTEN_BYTES_MAX = 256 * 1024 * 1024

function checkSize ({ keep, inbox }: IdempotencyFile, path: Path): Mistake[] {
  const count = Object.keys(inbox?.targets ?? {}).length
  const bytes = count * (parseSize(keep.requestBytesMax) ?? 0)
  return bytes <= WRITTEN_BYTES_MAX
    ? []
    : [mistake(path, `are ${count}, and keep.requestBytesMax is ${keep.requestBytesMax}: together at most 256MiB, because one acceptance writes the body for each target`)]
}

/** A mistake that targets have from their route is the route's alone. */
export function withoutInherited (mistakes: readonly Mistake[]): Mistake[] {
  const said = new Set(mistakes.map(textOf))
  return mistakes.filter((each) => {
    const at = each.path.indexOf('targets')
    return at === -1 || !said.has(textOf({ ...each, path: each.path.filter((_, index) => index !== at && index !== at + 1) }))
  })
}

function textOf ({ path, message }: Pick<Mistake, 'path' | 'message'>): string {
  return `${pathText(path)}: ${message}`
}

/** The file has passed {@link checkTargets}. */
export function targetsOf (
  { targets = {} }: Pick<InboxFile, 'targets'>,
  schedule: InboxPolicy['schedule'],
  upstreams: readonly UpstreamPolicy[]
): InboxTarget[] {
  return Object.entries(targets).map(([name, target]) => ({
    name,
    ...receiverOf(target, upstreams),
    when: conditionsOf(target),
    inbox: { ...deliveredOf(target), schedule, batch: 'refuse', targets: [], deadLetter: deadLetterOf(target, upstreams) }
  }))
}

function conditionsOf ({ when = {} }: Pick<TargetFile, 'when'>): Condition[] {
  return Object.entries(when).map(([written, values]) => {
    const source = valueSourceOf(written)
    if (source === null) throw new Error(`${written}: the check let it pass`)
    return { source, values }
  })
}
