/** Whose a client certificate is, and what the upstream sees of it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { certificateIdentity, forwardedCertificate } from '../../../src/core/forward/client-certificate.ts'
import type { CertificateNames } from '../../../src/core/forward/client-certificate.ts'

const ALICE: CertificateNames = { fingerprint: 'aa', authority: 'root', issuer: 'CN=ca', subject: 'CN=alice', alternatives: null }
const of = (changes: Partial<CertificateNames>): string => certificateIdentity({ ...ALICE, ...changes })

test('a renewed certificate is the same caller; another name, issuer or root is another one', () => {
  assert.equal(of({ fingerprint: 'bb' }), of({}))
  const others = [
    { subject: 'CN=bob' }, { subject: 'CN=Alice' }, { issuer: 'CN=other' }, { authority: 'other' }, { alternatives: 'DNS:alice' },
    { subject: null, alternatives: 'URI:spiffe://x/alice' }, { subject: null, alternatives: 'URI:spiffe://x/bob' }
  ].map(of)
  assert.equal(new Set([of({}), ...others]).size, others.length + 1)
})

test('a certificate whose names cannot all be read is a caller by itself', () => {
  for (const unread of [
    { authority: null }, { issuer: null }, { subject: null }, { alternatives: 'othername:<unsupported>' },
    { alternatives: 'IP Address:<invalid>' }
  ]) {
    assert.equal(of({ ...unread, fingerprint: 'aa' }), of({ authority: null }), 'only the fingerprint counts')
    assert.notEqual(of({ ...unread, fingerprint: 'bb' }), of({ ...unread, fingerprint: 'aa' }))
  }
})

test('the upstream gets the names as Envoy writes them', () => {
  assert.equal(
    forwardedCertificate({
      ...ALICE,
      subject: 'C=DE\nO=Müller\\, Söhne\nCN=alice',
      alternatives: 'URI:spiffe://x/y, DNS:a.example, IP Address:10.0.0.1'
    }),
    'Hash=aa;Subject="CN=alice,O=M\\C3\\BCller\\, S\\C3\\B6hne,C=DE";URI="spiffe://x/y";DNS="a.example"'
  )
  assert.equal(forwardedCertificate({ ...ALICE, subject: null }), 'Hash=aa')
})

test('no name ends its value early, and a long list is cut', () => {
  assert.equal(
    forwardedCertificate({ ...ALICE, subject: 'CN=x\\"\\;URI=spiffe://admin' }),
    'Hash=aa;Subject="CN=x\\22\\;URI=spiffe://admin"'
  )
  assert.equal(forwardedCertificate({ ...ALICE, subject: 'CN=x\\\\' }), 'Hash=aa;Subject="CN=x\\5C"')
  assert.equal(forwardedCertificate({ ...ALICE, alternatives: 'URI:"a\\u0022;URI=b", DNS:c' }), 'Hash=aa;Subject="CN=alice"')
  const hosts = Array.from({ length: 1_000 }, (_, number) => `DNS:host-${number}`)
  const long = forwardedCertificate({ ...ALICE, alternatives: hosts.join(', ') })
  assert.ok(long.length <= 4 * 1024 && long.startsWith('Hash=aa;Subject="CN=alice";DNS="host-0";') && long.endsWith('"'))
})
