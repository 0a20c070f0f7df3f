/**
 * How a connection is secured: by files that the configuration names, or by the URL's sslmode. Reads the files once; says in
 * one sentence which cannot be read. Both ways check the certificate and its name, or say aloud that they do not.
 */
import { readFileSync } from 'node:fs'
import type { PoolConfig } from 'pg'
import { StartError } from '../../ports/errors.ts'

/** Paths of PEM files. */
export interface TlsFiles {
  /** Whose signature the server's certificate must have; null: one that Node knows. */
  readonly caFile: string | null
  /** Our own, for a server that asks who we are. */
  readonly certFile: string | null
  readonly keyFile: string | null
}

/** What pg is given to connect with. */
export type Transport = Pick<PoolConfig, 'connectionString' | 'ssl'>

/** @throws StartError (exit 2) for a file that cannot be read. */
export function transportOf (url: string, tls: TlsFiles | null): Transport {
  const connectionString = pinned(url)
  if (tls === null) return { connectionString }
  const { caFile, certFile, keyFile } = tls
  return {
    connectionString,
    ssl: {
      rejectUnauthorized: true,
      ...caFile === null ? {} : { ca: read('caFile', caFile) },
      ...certFile === null ? {} : { cert: read('certFile', certFile) },
      ...keyFile === null ? {} : { key: read('keyFile', keyFile) }
    }
  }
}

/**
 * pg takes require and verify-ca for verify-full, and its next major version will not: an update of a library must not
 * make a deployment accept anybody's certificate. Who wants libpq's meaning says `uselibpqcompat=true`.
 */
function pinned (url: string): string {
  if (/[?&]uselibpqcompat=true(&|$)/.test(url)) return url
  return url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full')
}

function read (name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new StartError(
      `stores.postgres.tls.${name} cannot be read: ${file} (${(error as NodeJS.ErrnoException).code ?? 'unknown error'}).`,
      2,
      error
    )
  }
}
