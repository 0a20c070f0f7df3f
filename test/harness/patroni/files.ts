/** The configuration files of deploy/ha, filled in as `envsubst` does it. */
import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs'
import type { User } from '../process.ts'

const HA = new URL('../../../deploy/ha/', import.meta.url)

export type HaFile = 'etcd.yml' | 'patroni.yml' | 'haproxy.cfg' | 'pgbouncer.ini' | 'redis.conf' | 'sentinel.conf' | 'onceway.yaml'

export interface Filling {
  readonly name: HaFile
  readonly values: Readonly<Record<string, string | number>>
  readonly to: string
  readonly user?: User | undefined
}

/** Every placeholder needs a value, and every value a placeholder. */
export function fillIn ({ name, values, to, user }: Filling): void {
  const used = new Set<string>()
  const text = readFileSync(new URL(name, HA), 'utf8').replaceAll(/\$\{([A-Z_]+)\}/g, (_, key: string) => {
    const value = values[key]
    if (value === undefined) throw new Error(`deploy/ha/${name} wants ${key}`)
    used.add(key)
    return String(value)
  })
  const unused = Object.keys(values).filter((key) => !used.has(key))
  if (unused.length > 0) throw new Error(`deploy/ha/${name} does not use ${unused.join(', ')}`)
  writeFileSync(to, text)
  giveTo(to, user, 0o600)
}

export function giveTo (path: string, user: User | undefined, mode: number): void {
  chmodSync(path, mode)
  if (user !== undefined) chownSync(path, user.uid, user.gid)
}
