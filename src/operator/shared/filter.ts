/** What searches for records and for messages have in common: who it is, and when. */
import { inboxesOf, targetRoutes } from '../../core/inbox/targets.ts'
import { keyHashesOf } from './key-hashes.ts'
import type { OperatorContext } from './operators.ts'
import { badRequest, OperatorProblem, type Outcome } from './problem.ts'
import { ID_WANTED, readId, readTimes } from './query.ts'

export interface CommonValues {
  readonly id?: string
  readonly key?: string
  readonly from?: string
  readonly to?: string
  readonly route?: string
  readonly requestId?: string
  readonly path?: string
}

export interface CommonFilter {
  readonly id?: Buffer
  readonly keyHashes?: readonly Buffer[]
  readonly fromMs?: number
  readonly toMs?: number
  readonly route?: string
  readonly requestId?: string
  readonly path?: string
}

/** `notes`: what cannot be searched. */
export interface ReadFilter<Filter> { readonly filter: Filter, readonly notes: readonly string[] }

/** @throws as the store does */
export async function readCommon (
  { stores }: Pick<OperatorContext, 'stores'>,
  { id, key, from, to, route, requestId, path }: CommonValues
): Promise<Outcome<ReadFilter<CommonFilter>>> {
  const times = readTimes(present({ from, to }), await stores.operator.nowMs())
  if (times instanceof OperatorProblem) return times
  const named = id === undefined ? undefined : readId(id)
  if (named === null) return badRequest(ID_WANTED)
  const keys = key === undefined ? null : await keyHashesOf(key, stores)
  if (keys !== null && keys.hashes.length === 0) {
    return new OperatorProblem(
      'refused',
    `Cannot search by key: ${keys.missing.join(', and ')}.`
    )
  }
  return {
    filter: { ...times, ...present({ id: named, keyHashes: keys?.hashes, route, requestId, path }) },
    notes: keys === null ? [] : keys.missing.map((why) => `Not everything is found by key: ${why}.`)
  }
}

/** Why nothing may have been found. What a route left that is in no configuration any more is found. */
export function noteOfRoute ({ config }: Pick<OperatorContext, 'config'>, route: string | undefined, found: number): string[] {
  if (found > 0 || route === undefined) return []
  const inboxes = inboxesOf(config.routes)
  const targets = inboxes.filter(({ name }) => name === route).flatMap((each) => targetRoutes(each).map(({ name }) => name))
  if (targets.length > 0) return [`The messages of this route go to its targets: ${targets.join(', ')}.`]
  return [...config.routes, ...inboxes].some(({ name }) => name === route) ? [] : ['No route of the configuration has this name.']
}

/** Without the members that are undefined. */
export function present<Members extends object> (members: Members): { [Name in keyof Members]?: Exclude<Members[Name], undefined> } {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined)
  ) as { [Name in keyof Members]?: Exclude<Members[Name], undefined> }
}

/** A filter as JSON: bytes as text. */
export type WrittenFilter<Filter> = Omit<Filter, keyof WithBytes> & {
  readonly id?: string
  readonly group?: string
  readonly keyHashes?: readonly string[]
}

type WithBytes = Pick<CommonFilter, 'id' | 'keyHashes'> & { readonly group?: Buffer }

export function writtenFilter<Filter extends WithBytes> ({ id, group, keyHashes, ...filter }: Filter): WrittenFilter<Filter> {
  const bytes = present({
    id: id?.toString('base64url'),
    group: group?.toString('base64url'),
    keyHashes: keyHashes?.map((hash) => hash.toString('base64url'))
  })
  return { ...filter, ...bytes }
}

export function filterOf<Filter extends WithBytes> ({ id, group, keyHashes, ...filter }: WrittenFilter<Filter>): Filter {
  const bytes = present({
    id: id === undefined ? undefined : Buffer.from(id, 'base64url'),
    group: group === undefined ? undefined : Buffer.from(group, 'base64url'),
    keyHashes: keyHashes?.map((hash) => Buffer.from(hash, 'base64url'))
  })
  return { ...filter, ...bytes } as unknown as Filter
}
