/** Checks the certificates of a configuration, before any connection uses them. */
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

export const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g

/** Whether the text has one or more certificates in PEM that TLS can load. */
export function areAuthorities (pem: string): boolean {
  const certificates = pem.match(CERTIFICATE) ?? []
  return certificates.length > 0 &&
    isSound(() => { createSecureContext({ ca: certificates.map((each) => new X509Certificate(each).toString()) }) })
}

/** Whether `make` does not throw. */
export function isSound (make: () => void): boolean {
  try {
    make()
    return true
  } catch {
    return false
  }
}
