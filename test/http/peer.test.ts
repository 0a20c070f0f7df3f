/** In whose share a connection or a request counts: of IPv4 the address, of IPv6 the network that a client has to itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Socket } from 'node:net'
import { PeerTrust } from '../../src/http/shared/peer.ts'

const at = (remoteAddress: string, ...forwardedFor: string[]): Parameters<PeerTrust['peerOf']>[0] =>
  ({ socket: { remoteAddress } as Socket, rawHeaders: forwardedFor.flatMap((line) => ['X-Forwarded-For', line]) })

const PROXY = '10.0.0.1'
const nobody = new PeerTrust([])
const behind = new PeerTrust(['10.0.0.0/8', 'fd00::/8'])

/** Every way in which such an address is told: by the kernel of the connection, by a proxy in front of it. */
const WAYS: ReadonlyArray<readonly [string, (address: string) => string | null]> = [
  ['a connection', (address) => nobody.connectedFrom({ remoteAddress: address })],
  ['a connection beside those of proxies', (address) => behind.connectedFrom({ remoteAddress: address })],
  ['a request', (address) => nobody.peerOf(at(address))],
  ['a request through a proxy', (address) => behind.peerOf(at(PROXY, address))],
  ['a request through two', (address) => behind.peerOf(at('fd00::1', `spoofed, ${address}, ${PROXY}`))],
  ['a request through a proxy that tells the port', (address) => behind.peerOf(at(PROXY, `[${address}]:4711`))]
]

/** Each line: spellings of addresses of one network, which is no other line's. */
const NETWORKS: readonly (readonly string[])[] = [
  [
    '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::', '2001:db8:1:2::1', '2001:db8:1:2:ffff:ffff:ffff:ffff',
    '2001:db8:1:2::3:4', '2001:db8:1:2:3::', '2001:0db8:0001:0002::1', '2001:DB8:1:2::A'
  ],
  ['2001:db8:1:3::', '2001:db8:1:3::1', '2001:db8:1:3:3:4:5:6'],
  ['2001:db8:1::', '2001:db8:1::1', '2001:db8:1:0::1', '2001:db8:1:0:3:4:5:6', '2001:db8:1::3:4:5:6'],
  ['2001:db8::2:3:4:5:6', '2001:db8:0:2:3:4:5:6', '2001:db8:0:2::'],
  ['2001:db8::', '2001:db8::1', '2001:db8::3:4:5:6', '2001:db8:0:0::1', '2001:db8:0:0:3:4:5:6'],
  ['2001::2:3:4:5:6', '2001:0:0:2:3:4:5:6', '2001:0:0:2::'],
  ['2001::1:2:3:4:5:6', '2001:0:1:2::'],
  ['2001::', '2001::1', '2001:0:0:0:1::', '2001::3:4:5:6'],
  ['::1', '::', '::3:4:5:6', '::1.2.3.4', '0:0:0:0:3:4:5:6', '0::0'],
  ['::2:3:4:5:6', '0:0:0:2::', '0::2:3:4:5:6'],
  ['::1:2:3:4:5:6', '0:0:1:2::'],
  ['::db8:1:2:3:4:5:6', '0:db8:1:2::'],
  ['fe80::1', 'fe80::', 'fe80::3:4:5:6']
]

for (const [what, peerOf] of WAYS) {
  test(`addresses of one /64 are one peer, those of two are two, however they are spelled: ${what}`, () => {
    const seen = new Map<string, string>()
    for (const addresses of NETWORKS) {
      const peers = new Set(addresses.map(peerOf))
      assert.equal(peers.size, 1, `${addresses.join(' ')} are ${[...peers].join(' ')}`)
      const peer = peerOf(addresses[0] ?? '')
      assert.ok(peer !== null)
      assert.equal(seen.get(peer), undefined, `${addresses[0]} and ${seen.get(peer)} are both ${peer}`)
      seen.set(peer, addresses[0] ?? '')
    }
  })

  test(`of IPv4 each address is a peer: ${what}`, () => {
    assert.notEqual(peerOf('192.0.2.1'), peerOf('192.0.2.2'))
    assert.equal(peerOf('192.0.2.1'), peerOf('192.0.2.1'))
    assert.equal(peerOf('::ffff:192.0.2.1'), peerOf('192.0.2.1'))
    assert.notEqual(peerOf('::ffff:192.0.2.1'), peerOf('::ffff:192.0.2.2'))
  })
}

// The last one is none that a system has, and a client may write it.
const ZONED = [
  'fe80::1%eth0', 'fe80::1%1', 'fe80::2%lo', 'fe80::%eth0', 'fe80::3:4:5:6%eth0', 'fe80:0:0:0:3:4:5:6%eth0',
  'fe80::1%a:b:c:d:e:f:0'
]

for (const [what, peerOf] of WAYS) {
  test(`the zone of an address makes no other peer of it: ${what}`, () => {
    for (const address of ZONED) assert.equal(peerOf(address), peerOf('fe80::1'), address)
    assert.notEqual(peerOf('fe80:0:0:1::1%eth0'), peerOf('fe80::1%eth0'))
  })
}

test('what is forwarded is believed of a trusted proxy alone, and of its words the last that is no proxy', () => {
  assert.equal(nobody.peerOf(at('192.0.2.1', '198.51.100.1')), '192.0.2.1')
  assert.equal(behind.peerOf(at('192.0.2.1', '198.51.100.1')), '192.0.2.1')
  assert.equal(behind.peerOf(at(PROXY, '203.0.113.1, 198.51.100.1')), '198.51.100.1')
  assert.equal(behind.peerOf(at(PROXY, '203.0.113.1', '198.51.100.1', '10.0.0.2')), '198.51.100.1')
  assert.equal(behind.peerOf(at(PROXY, '203.0.113.1:4711')), '203.0.113.1')
  assert.equal(behind.peerOf(at(`::ffff:${PROXY}`, '198.51.100.1')), '198.51.100.1')
})

test('a proxy has no share of its own, whether or not it says for whom it asks', () => {
  for (const proxy of [PROXY, `::ffff:${PROXY}`, 'fd00::1', 'fd12:3456::1']) {
    assert.equal(behind.connectedFrom({ remoteAddress: proxy }), null)
    assert.equal(behind.peerOf(at(proxy)), null)
    for (const said of ['', 'unknown', '_hidden', '10.0.0.2', '198.51.100.1, unknown', 'fd00::2, 10.0.0.2']) {
      assert.equal(behind.peerOf(at(proxy, said)), null, said)
    }
  }
})
