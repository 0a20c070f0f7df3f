/**
 * How a connection is secured: by files that the configuration names, or by the URL's sslmode. The files are read once. If
 * one cannot be read, the error names it in one sentence. Both ways check the certificate and its name, or say aloud that
 * they do not.
 */
import { readFileSync } from 'node:fs'
import type { PoolConfig } from 'pg'
import { StartError } from '../../ports/errors.ts'

/** Paths of PEM files. */
export interface TlsFiles {
  /** The CA that must have signed the server's certificate. null: one that Node knows. */
  readonly caFile: string | null
  /** The gateway's own certificate, for a server that asks for one. */
  readonly certFile: string | null
  readonly keyFile: string | null
}

/** The part of pg's configuration that says how a connection is secured. login.ts says where it leads. */
export type Secured = Pick<PoolConfig, 'ssl'>

/** @throws StartError (exit 2) for a file that cannot be read. */
export function securedBy (tls: TlsFiles | null): Secured {
  if (tls === null) return {}
  const { caFile, certFile, keyFile } = tls
  return {
    ssl: {
      rejectUnauthorized: true,
      ...caFile === null ? {} : { ca: read('caFile', caFile) },
      ...certFile === null ? {} : { cert: read('certFile', certFile) },
      ...keyFile === null ? {} : { key: read('keyFile', keyFile) }
    }
  }
}

/**
 * pg treats require and verify-ca as verify-full, and its next major version will not. An update of a library must not make a
 * deployment accept any certificate. For libpq's meaning the URL says `uselibpqcompat=true`.
 */
export function pinned (url: string): string {
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
