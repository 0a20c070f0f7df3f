/**
 * Ports of stores that are not opened yet. While the gateway cannot reach its database, it listens and answers 503 (or passes
 * requests through). It uses no Redis before the database has named the installation (P2).
 */
import { StoreNotOpened } from '../../ports/errors.ts'
import type { InboxStore } from '../../ports/inbox.ts'
import type { LockStore } from '../../ports/locks.ts'
import type { RecordCounts } from '../../ports/record-counts.ts'
import type { RecordStore } from '../../ports/records.ts'
import type { Registry } from '../../ports/registry.ts'
import { proxied } from '../../ports/proxied.ts'
import type { MethodOf, PropertiesOf } from '../../ports/proxied.ts'
import { NO_LOCKS } from './no-locks.ts'

export interface Lazy<Port> {
  /** Rejects with StoreNotOpened until `open` has been called. Nothing was written then. */
  readonly port: Port
  readonly open: (port: Port) => void
}

type Name = RecordStore['name']

export function lazyRecords (name: Name): Lazy<RecordStore> {
  return lazily<RecordStore>(name, ['close'], (opened, isOpen) => ({
    name,
    get installation () { return opened('installation').installation },
    get lanes () { return isOpen() ? opened('lanes').lanes : undefined }
  }))
}

export function lazyInbox (name: Name): Lazy<InboxStore> {
  return lazily<InboxStore>(name, ['gone'], () => ({}))
}

export function lazyCounts (name: Name): Lazy<RecordCounts> {
  return lazily<RecordCounts>(name, [], () => ({}))
}

export function lazyRegistry (): Lazy<Registry> {
  return lazily<Registry>('postgres', ['withdraw'], () => ({ name: 'postgres' }))
}

/** Until it is opened, no lock is available. Nothing rejects. */
export function lazyLocks (): Lazy<LockStore> {
  let locks = NO_LOCKS
  const properties = { get name () { return locks.name }, get mirror () { return locks.mirror }, get lane () { return locks.lane } }
  return { port: proxied<LockStore>(properties, (_, on) => on(locks)), open: (opened) => { locks = opened } }
}

/** The call's own promise. A call that throws rejects. */
function started (call: () => unknown): unknown {
  try {
    return call()
  } catch (error) {
    return thrown(error)
  }
}

async function thrown (error: unknown): Promise<never> { throw error }

/** `idle`: methods that have nothing to do before the store is opened. */
function lazily<Port extends object> (
  store: Name,
  idle: ReadonlyArray<MethodOf<Port>>,
  propertiesOf: (opened: (operation: string) => Port, isOpen: () => boolean) => PropertiesOf<Port>
): Lazy<Port> {
  let opened: Port | null = null
  const get = (operation: string): Port => {
    if (opened === null) throw new StoreNotOpened(store, operation)
    return opened
  }
  const port = proxied<Port>(
    propertiesOf(get, () => opened !== null),
    (method, on) => {
      if (opened !== null) return started(() => on(opened as Port))
      return idle.includes(method) ? Promise.resolve() : Promise.reject(new StoreNotOpened(store, String(method)))
    }
  )
  return { port, open: (it) => { opened = it } }
}
