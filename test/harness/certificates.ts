/** A certificate authority and its certificates, made by openssl on demand. They are removed with the test's directory. */
import { execFileSync } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { join } from 'node:path'
import { findTool, unprivilegedUser } from './binaries.ts'
import { makeDirectory } from './directory.ts'

export interface Signed { readonly cert: string, readonly key: string }

export interface SignOptions {
  /** Of the files, if one name gets several certificates. */
  readonly file?: string
  /** Negative: it has expired. */
  readonly days?: string
  readonly subject?: string
  /** More subjectAltNames, as openssl writes them. */
  readonly names?: string
  /** The certificate gets this key, and no new one. */
  readonly key?: string
}

export interface Authority {
  /** PEM file. */
  readonly ca: string
  /** A certificate for these hosts, or (none) for a client with this common name. */
  readonly sign: (name: string, hosts: readonly string[], options?: SignOptions) => Signed
  /** An authority below this one. `ca` is the file of its own certificate. */
  readonly below: (name: string) => Authority
  /** Opens the files to a server of the harness that runs as another user. */
  readonly readableByServers: (...paths: readonly string[]) => void
  readonly remove: () => void
}

const DAYS = '2'
const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** `name`: the common name. */
export function makeAuthority (name = 'of the test'): Authority {
  const directory = makeDirectory('certificates')
  const tool = findTool('openssl')
  if (tool.kind !== 'binaries') throw new Error('there is no openssl: say needs(\'openssl\')')
  const openssl: Openssl = (...args) => {
    execFileSync(join(tool.directory, 'openssl'), args, { cwd: directory.path, stdio: 'ignore' })
  }
  const user = unprivilegedUser()
  // The test is root then, and can read them all the same.
  const readableByServers = (...paths: readonly string[]): void => {
    if (user !== undefined) for (const path of paths) chownSync(path, user.uid, user.gid)
  }
  openssl('req', '-x509', ...NEW_KEY, '-keyout', 'ca.key', '-out', 'ca.pem', '-days', DAYS, '-subj', `/CN=${name}`)
  readableByServers(directory.path, join(directory.path, 'ca.pem'))
  return authorityOf('ca', { path: directory.path, openssl, readableByServers, remove: directory.remove })
}

type Openssl = (...args: readonly string[]) => void

interface Workshop extends Pick<Authority, 'readableByServers' | 'remove'> { readonly path: string, readonly openssl: Openssl }

function authorityOf (issuer: string, workshop: Workshop): Authority {
  const { path, openssl, readableByServers, remove } = workshop
  const at = (name: string): string => join(path, name)
  const issue = (file: string, subject: string, extensions: readonly string[], days: string, key?: string): void => {
    writeFileSync(at(`${file}.ext`), `${extensions.join('\n')}\n`)
    if (key !== undefined) copyFileSync(key, at(`${file}.key`))
    const keyArgs = key === undefined ? [...NEW_KEY, '-keyout'] : ['-new', '-key']
    openssl('req', ...keyArgs, `${file}.key`, '-out', `${file}.csr`, '-subj', subject)
    openssl(
      'x509', '-req', '-in', `${file}.csr`, '-CA', `${issuer}.pem`, '-CAkey', `${issuer}.key`, '-CAcreateserial', '-out',
      `${file}.pem`, '-days', days, '-extfile', `${file}.ext`
    )
  }
  return {
    ca: at(`${issuer}.pem`),
    sign (name, hosts, { file = name, days = DAYS, subject = `/CN=${name}`, names, key } = {}) {
      const alternatives = [...hosts.map((each) => `${isIP(each) === 0 ? 'DNS' : 'IP'}:${each}`), ...names === undefined ? [] : [names]]
      issue(file, subject, [
        ...hosts.length === 0 ? ['extendedKeyUsage=clientAuth'] : [],
        ...alternatives.length === 0 ? [] : [`subjectAltName=${alternatives.join(',')}`]
      ], days, key)
      chmodSync(at(`${file}.key`), 0o600)
      readableByServers(at(`${file}.pem`), at(`${file}.key`))
      return { cert: at(`${file}.pem`), key: at(`${file}.key`) }
    },
    below (name) {
      const file = `below-${name.replaceAll(/[^a-z0-9]/gi, '-')}`
      issue(file, `/CN=${name}`, ['basicConstraints=critical,CA:TRUE'], DAYS)
      return authorityOf(file, workshop)
    },
    readableByServers,
    remove
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
