/** Checks the certificates of a configuration, before any connection uses them. */
import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'

const BEGIN = /-----BEGIN CERTIFICATE-----/g
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g

/** Each certificate of a PEM file. null: one of them has no end, because somebody is still writing it. */
export function certificateTexts (pem: string): readonly string[] | null {
  const found = pem.match(CERTIFICATE) ?? []
  return found.length === (pem.match(BEGIN) ?? []).length ? found : null
}

/** Whether the text has one or more certificates in PEM that TLS can load. */
export function areAuthorities (pem: string): boolean {
  const certificates = certificateTexts(pem) ?? []
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
