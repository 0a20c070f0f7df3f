/** The files of a listener's certificate, as `onceway check` judges them. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import type { TestContext } from 'node:test'
import { makeAuthority, textOf } from '../harness/certificates.ts'
import type { Authority, Signed } from '../harness/certificates.ts'
import { needs } from '../harness/needs.ts'
import { ConfigWorld, fileWith } from './world.ts'

describe('listen.tls', needs('openssl'), () => {
  let authority: Authority
  let signed: Signed
  before(() => {
    authority = makeAuthority()
    signed = authority.sign('gateway', ['127.0.0.1'])
  })
  after(() => { authority.remove() })

  const complaints = (t: TestContext, policy: string, rest: string): string =>
    new ConfigWorld(t).complaints(fileWith({ policy, rest })).join('\n')

  test('a pair that fits is right, and file names are relative to the file', (t) => {
    const world = new ConfigWorld(t)
    for (const [name, from] of [['tls.crt', signed.cert], ['tls.key', signed.key]] as const) {
      writeFileSync(`${world.directory}/${name}`, textOf(from))
    }
    const { config } = world.load(fileWith({ rest: 'listen: { tls: { certFile: tls.crt, keyFile: tls.key } }' }))
    assert.deepEqual(config.listen.tls, {
      certFile: `${world.directory}/tls.crt`,
      keyFile: `${world.directory}/tls.key`,
      minVersion: 'TLSv1.2',
      clientCertificates: null,
      clientCaFile: null
    })
    assert.match(config.printed, /minVersion: TLSv1\.2/)
  })

  test('what cannot be used is said with its setting, and never shown', (t) => {
    const wrong = (tls: string): string => complaints(t, '{}', `listen: { tls: { ${tls} } }`)
    const other = authority.sign('other', ['127.0.0.1'])
    const { cert, key } = signed
    const pair = `certFile: ${cert}, keyFile: ${key}`
    assert.match(
      wrong(`certFile: ${cert}, keyFile: ${other.key}`),
      /^listen\.tls\.keyFile: \S+other\.key is not the key of \S+gateway\.pem$/
    )
    assert.match(wrong(`certFile: ${key}, keyFile: ${key}`), /^listen\.tls\.certFile: \S+ is no certificate in PEM$/)
    assert.match(wrong(`certFile: ${cert}, keyFile: ${cert}`), /^listen\.tls\.keyFile: \S+ is no private key in PEM$/)
    assert.match(wrong(`certFile: ${cert}, keyFile: /no/such`), /^listen\.tls\.keyFile: \/no\/such cannot be read \(ENOENT\)$/)
    assert.match(wrong(`certFile: ${cert}`), /^listen\.tls\.keyFile: is missing$/)
    assert.match(wrong(`${pair}, minVersion: TLSv1.1`), /minVersion: "TLSv1\.1" must be one of TLSv1\.2, TLSv1\.3/)
    assert.match(wrong(`${pair}, clientCertificates: required`), /^listen\.tls\.clientCertificates: needs clientCaFile too$/)
    assert.match(wrong(`${pair}, clientCaFile: ${authority.ca}`), /^listen\.tls\.clientCaFile: needs clientCertificates too$/)
    assert.match(
      wrong(`${pair}, clientCertificates: required, clientCaFile: ${key}`),
      /^listen\.tls\.clientCaFile: \S+ is no certificate in PEM$/
    )
    const asked = `${pair}, clientCertificates: required, clientCaFile`
    assert.match(wrong(`${asked}: ${other.cert}`), /^listen\.tls\.clientCaFile: \S+other\.pem has a certificate that is no authority$/)
    const world = new ConfigWorld(t)
    const cutOff = `${world.directory}/ca.crt`
    writeFileSync(cutOff, textOf(authority.ca) + textOf(authority.ca).slice(0, -100))
    assert.match(wrong(`${asked}: ${cutOff}`), /^listen\.tls\.clientCaFile: \S+ca\.crt has a certificate that is cut off$/)
    const pipe = `${world.directory}/pipe`
    execFileSync('mkfifo', [pipe])
    assert.match(wrong(`certFile: ${pipe}, keyFile: ${key}`), /^listen\.tls\.certFile: \S+pipe is no regular file$/)
  })

  test('a certificate that is out of date serves, with a warning; one that a client signed itself is its own authority', (t) => {
    const expired = authority.sign('expired', ['127.0.0.1'], { days: '-1' })
    const alone = makeAuthority('of itself')
    t.after(() => { alone.remove() })
    const { config } = new ConfigWorld(t).load(fileWith({
      rest: `
listen: { tls: { certFile: ${signed.cert}, keyFile: ${signed.key}, clientCertificates: optional, clientCaFile: ${alone.ca} } }
admin: { tls: { certFile: ${expired.cert}, keyFile: ${expired.key} } }`
    }))
    const [warning, ...others] = config.warnings
    assert.match(warning ?? '', /^admin\.tls\.certFile: \S+expired\.pem has expired on \S+Z; clients that verify it refuse to connect\.$/)
    assert.deepEqual(others, [])
  })

  test('a scope by client certificate needs a listener that asks for one', (t) => {
    assert.match(
      complaints(t, '{ scope: client-certificate }', ''),
      /scope: cannot be client-certificate: listen\.tls\.clientCertificates does not ask for one/
    )
    const tls = `certFile: ${signed.cert}, keyFile: ${signed.key}, clientCertificates: optional, clientCaFile: ${authority.ca}`
    new ConfigWorld(t).load(fileWith({ policy: '{ scope: client-certificate }', rest: `listen: { tls: { ${tls} } }` }))
    assert.match(complaints(t, '{ scope: client-certificates }', ''), /did you mean client-certificate/)
  })
})
