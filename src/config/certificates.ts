/** Certificates in the file: whether they can be used, found out before anybody connects. */
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** One certificate of an authority in PEM, or several one behind the other. */
export function areAuthorities (pem: string): boolean {
  const certificates = pem.match(CERTIFICATE) ?? []
  return certificates.length > 0 &&
    isSound(() => { createSecureContext({ ca: certificates.map((each) => new X509Certificate(each).toString()) }) })
}

/** `make` does not throw. */
export function isSound (make: () => void): boolean {
  try {
    make()
    return true
  } catch {
    return false
  }
}
