/** TLS of a listener: its settings, and its files as they are now. `onceway check` and a running gateway judge them the same. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { Type } from 'typebox'
import type { Static } from 'typebox'
import { errorText } from '../ports/errors.ts'
import { readRegularFile } from '../regular-file.ts'
import { certificateTexts } from './certificates.ts'
import type { ListenerTlsConfig } from './config.ts'
import { mistake } from './read/problem.ts'
import type { Mistake, Path } from './read/problem.ts'
import { shape } from './read/schema-words.ts'

const FileName = (description: string) => Type.String({ minLength: 1, description })

const Block = <const Kinds extends Array<'required' | 'optional'>>(kinds: Kinds, description: string) => Type.Object({
  certFile: FileName('PEM file of the certificate, with its intermediates behind it. Files are read again when they change, and open connections stay open.'),
  keyFile: FileName('PEM file of the certificate\'s key, without a passphrase.'),
  minVersion: Type.Enum(['TLSv1.2', 'TLSv1.3'], { default: 'TLSv1.2', description: 'Lowest version of TLS.' }),
  clientCertificates: Type.Optional(Type.Enum(kinds, {
    description: `Ask clients for a certificate of \`clientCaFile\`. required: a client without one gets no connection.${kinds.includes('optional') ? ' optional: it does. A certificate that is not valid closes the connection either way.' : ''}`
  })),
  clientCaFile: Type.Optional(FileName('PEM file of the authorities whose client certificates are accepted. It needs `clientCertificates`.'))
}, { ...shape, description: `${description} File names are relative to this file.` })

export const ListenerTls = <const Kinds extends Array<'required' | 'optional'>>(kinds: Kinds, description: string) =>
  Type.Optional(Block(kinds, description))

type ListenerTlsFile = Static<ReturnType<typeof Block<['required', 'optional']>>>

export function listenerTlsOf (file: ListenerTlsFile | undefined, base: string): ListenerTlsConfig | null {
  if (file === undefined) return null
  const { certFile, keyFile, minVersion, clientCertificates = null, clientCaFile } = file
  return {
    certFile: resolve(base, certFile),
    keyFile: resolve(base, keyFile),
    minVersion,
    clientCertificates,
    clientCaFile: clientCaFile === undefined ? null : resolve(base, clientCaFile)
  }
}

export function checkListenerTls (path: Path, file: ListenerTlsFile | undefined, base: string): Mistake[] {
  // The schema has reported what is missing.
  if (file?.certFile === undefined || file.keyFile === undefined) return []
  const { clientCertificates, clientCaFile } = file
  if ((clientCertificates === undefined) !== (clientCaFile === undefined)) {
    const [there, missing] = clientCaFile === undefined ? ['clientCertificates', 'clientCaFile'] : ['clientCaFile', 'clientCertificates']
    return [mistake([...path, there], `needs ${missing} too`, 'key')]
  }
  const config = listenerTlsOf(file, base)
  const read = config === null ? null : readListenerTls(config)
  return read !== null && 'wrong' in read ? [mistake([...path, read.member], read.wrong)] : []
}

/** A gateway serves with such a certificate, because the clock may be wrong, and clients may not care. */
export function listenerTlsWarnings (listener: 'listen' | 'admin', file: ListenerTlsFile | undefined, base: string): string[] {
  const config = listenerTlsOf(file, base)
  const read = config === null ? null : readListenerTls(config)
  const why = read === null || 'wrong' in read ? null : outOfDate(read, Date.now())
  if (config === null || why === null) return []
  return [`${listener}.tls.certFile: ${config.certFile} ${why}; clients that verify it refuse to connect.`]
}

/** A scope that no request could have. */
export function checkCertificateScope (path: Path, scope: string | readonly string[], tls: ListenerTlsFile | undefined): Mistake[] {
  return [scope].flat().includes('client-certificate') && tls?.clientCertificates === undefined
    ? [mistake(path, 'cannot be client-certificate: listen.tls.clientCertificates does not ask for one')]
    : []
}

/** The text of the files. A pair that fits, and that TLS can load. */
export interface ListenerTlsTexts {
  readonly cert: string
  readonly key: string
  /** One certificate each. */
  readonly ca: readonly string[]
  /** The certificates that clients get are all valid from then, in ms of Unix time. */
  readonly validFromMs: number
  /** The first end among them, in ms of Unix time. */
  readonly expiresAtMs: number
}

export interface WrongTls {
  readonly member: 'certFile' | 'keyFile' | 'clientCaFile'
  /** Names the file, and never shows its text. */
  readonly wrong: string
}

export function readListenerTls ({ certFile, keyFile, clientCaFile, minVersion }: ListenerTlsConfig): ListenerTlsTexts | WrongTls {
  let member: WrongTls['member'] = 'certFile'
  try {
    const cert = readText(certFile)
    const chain = certificatesIn(certFile, cert)
    member = 'keyFile'
    const key = readText(keyFile)
    if (chain[0]?.checkPrivateKey(keyIn(keyFile, key)) !== true) throw new Error(`${keyFile} is not the key of ${certFile}`)
    member = 'clientCaFile'
    const ca = clientCaFile === null ? [] : authoritiesIn(clientCaFile)
    member = 'certFile'
    load(certFile, { cert, key, ca, minVersion })
    return {
      cert,
      key,
      ca,
      validFromMs: Math.max(...chain.map(({ validFromDate }) => validFromDate.getTime())),
      expiresAtMs: Math.min(...chain.map(({ validToDate }) => validToDate.getTime()))
    }
  } catch (error) {
    return { member, wrong: errorText(error) }
  }
}

/** What a client would say of the certificate. null: it is valid. */
export function outOfDate ({ validFromMs, expiresAtMs }: ListenerTlsTexts, nowMs: number): string | null {
  if (nowMs >= expiresAtMs) return `has expired on ${new Date(expiresAtMs).toISOString()}`
  return nowMs < validFromMs ? `is not valid before ${new Date(validFromMs).toISOString()}` : null
}

/** A certificate with its chain, or the authorities of a company. A larger file is the wrong one. */
const FILE_BYTES_MAX = 1024 * 1024

function readText (file: string): string {
  return readRegularFile(file, FILE_BYTES_MAX)
}

function certificatesIn (file: string, pem: string): X509Certificate[] {
  const found = certificateTexts(pem)
  if (found === null) throw new Error(`${file} has a certificate that is cut off`)
  if (found.length === 0) throw new Error(`${file} is no certificate in PEM`)
  return found.map((each) => orWrong(`${file} is no certificate in PEM`, () => new X509Certificate(each)))
}

/** A client's own certificate may stand for itself, if it has signed itself. Any other vouches for nobody, not even for itself. */
function authoritiesIn (file: string): string[] {
  const found = certificatesIn(file, readText(file))
  if (!found.every((each) => each.ca || each.checkIssued(each))) throw new Error(`${file} has a certificate that is no authority`)
  return found.map(String)
}

function keyIn (file: string, pem: string): ReturnType<typeof createPrivateKey> {
  if (/ENCRYPTED/.test(pem)) throw new Error(`${file} has a passphrase; the gateway needs a key without one`)
  return orWrong(`${file} is no private key in PEM`, () => createPrivateKey(pem))
}

/** TLS refuses some certificates that are whole, for example with a short key. */
function load (file: string, options: Parameters<typeof createSecureContext>[0] & { readonly ca: string[] }): void {
  try {
    createSecureContext(options)
  } catch (error) {
    throw new Error(`${file} cannot be used for TLS (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`, { cause: error })
  }
}

function orWrong<Value> (why: string, make: () => Value): Value {
  try {
    return make()
  } catch (error) {
    throw new Error(why, { cause: error })
  }
}
