/**
 * Where Redis is: one server, sentinels that know the current master, or a cluster. Shapes only. The configuration has made
 * sure that exactly one of the three is given.
 */
export interface Address { readonly host: string, readonly port: number }

/** PEM texts. null: what Node does by itself (the system's authorities, no certificate of our own, the host's name). */
export interface TlsMaterial {
  readonly ca: string | null
  readonly cert: string | null
  readonly key: string | null
  /** The name that the server's certificate is checked against, instead of its host. */
  readonly servername: string | null
}

/** How a server is spoken to, wherever it is. */
export interface Credentials {
  readonly username?: string | null
  readonly password?: string | null
  readonly database?: number
  /** null: without TLS. */
  readonly tls?: TlsMaterial | null
}

export interface SentinelAt extends Credentials {
  /** Of the master, as the sentinels call it. */
  readonly name: string
  readonly nodes: readonly Address[]
}

export interface RedisAt extends Credentials {
  readonly url?: string | null
  readonly sentinel?: SentinelAt | null
  /** Some of the nodes. They know the others. */
  readonly cluster?: readonly Address[] | null
}

export function addressText ({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
