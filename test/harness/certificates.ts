/** A certificate authority and its certificates, made by openssl on demand. They are removed with the test's directory. */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { findTool, unprivilegedUser } from './binaries.ts'
import { makeDirectory } from './directory.ts'

export interface Signed { readonly cert: string, readonly key: string }

export interface Authority {
  /** PEM file. */
  readonly ca: string
  /** A certificate for these hosts, or (none) for a client with this common name. */
  readonly sign: (name: string, hosts: readonly string[]) => Signed
  /** Opens the files to a server of the harness that runs as another user. */
  readonly readableByServers: (...paths: readonly string[]) => void
  readonly remove: () => void
}

const DAYS = '2'

export function makeAuthority (): Authority {
  const directory = makeDirectory('certificates')
  const at = (name: string): string => join(directory.path, name)
  const tool = findTool('openssl')
  if (tool.kind !== 'binaries') throw new Error('there is no openssl: say needs(\'openssl\')')
  const openssl = (...args: string[]): void => {
    execFileSync(join(tool.directory, 'openssl'), args, { cwd: directory.path, stdio: 'ignore' })
  }
  const user = unprivilegedUser()
  // The test is root then, and can read them all the same.
  const readableByServers = (...paths: readonly string[]): void => {
    if (user !== undefined) for (const path of paths) chownSync(path, user.uid, user.gid)
  }
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl('req', '-x509', ...key, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', DAYS, '-subj', '/CN=of the test')
  readableByServers(directory.path, at('ca.pem'))
  return {
    ca: at('ca.pem'),
    sign (name, hosts) {
      writeFileSync(
        at(`${name}.ext`),
        hosts.length === 0
          ? 'extendedKeyUsage=clientAuth\n'
          : `subjectAltName=${hosts.map((each) => `${isIP(each) === 0 ? 'DNS' : 'IP'}:${each}`).join(',')}\n`
      )
      openssl('req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, '-subj', `/CN=${name}`)
      openssl(
        'x509', '-req', '-in', `${name}.csr`, '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-out',
        `${name}.pem`, '-days', DAYS, '-extfile', `${name}.ext`
      )
      chmodSync(at(`${name}.key`), 0o600)
      readableByServers(at(`${name}.pem`), at(`${name}.key`))
      return { cert: at(`${name}.pem`), key: at(`${name}.key`) }
    },
    readableByServers,
    remove: directory.remove
  }
}

/** The certificates of a redis-server and its clients. */
export interface Certificates extends Signed {
  readonly ca: string
  /** Arguments of a redis-server that speaks only TLS, on the port of `--port`. */
  readonly redisArgs: (port: number) => string[]
}

export function redisCertificates ({ ca, sign }: Authority): Certificates {
  const { cert, key } = sign('redis', ['127.0.0.1', 'localhost'])
  return {
    ca,
    cert,
    key,
    redisArgs: (port) => [
      '--port', '0', '--tls-port', String(port), '--tls-cert-file', cert, '--tls-key-file', key, '--tls-ca-cert-file',
      ca
    ]
  }
}

/** The options of an ioredis client for such a server. */
export function clientOf (certificates: Certificates | undefined): { tls?: { ca: string, cert: string, key: string } } {
  return certificates === undefined
    ? {}
    : { tls: { ca: textOf(certificates.ca), cert: textOf(certificates.cert), key: textOf(certificates.key) } }
}

export function textOf (file: string): string { return readFileSync(file, 'utf8') }
