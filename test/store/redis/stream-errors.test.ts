/**
 * A Redis with a certificate for another name whose handshake has bytes behind it that are no TLS. Node reports both on the one socket, the
 * bytes first. ioredis listens for one error of a socket: the second one ended the gateway.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { connectTo, connectUrl } from '../../../src/store/redis/client.ts'
import type { ClientOptions } from '../../../src/store/redis/client.ts'
import { makeAuthority } from '../../harness/certificates.ts'
import { eventually } from '../../harness/eventually.ts'
import { needs } from '../../harness/needs.ts'

/** What the server writes first, its whole handshake, gets these bytes at its end. */
function spoiled (socket: Socket): Duplex {
  let isFirst = true
  const wire = new Duplex({
    read: () => { socket.resume() },
    write: (chunk: Buffer, _encoding, done) => {
      socket.write(isFirst ? Buffer.concat([chunk, Buffer.from('these bytes are no record of TLS')]) : chunk)
      isFirst = false
      done()
    }
  })
  socket.on('data', (chunk: Buffer) => { if (!wire.push(chunk)) socket.pause() })
  socket.on('error', () => {})
  socket.on('close', () => { wire.destroy() })
  return wire
}

test('two errors of one connection to Redis do not end the process', needs('openssl'), async (t) => {
  const authority = makeAuthority()
  t.after(() => { authority.remove() })
  const { cert, key } = authority.sign('redis', ['redis.example'])
  let connections = 0
  const server = createServer((socket) => {
    connections++
    new TLSSocket(spoiled(socket), { isServer: true, cert: readFileSync(cert), key: readFileSync(key) }).on('error', () => {})
  }).listen(0, '127.0.0.1')
  t.after(() => { server.close() })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const tls = { ca: readFileSync(authority.ca, 'utf8'), cert: null, key: null, servername: null }
  const options: ClientOptions = { tls, name: 'onceway', commandTimeoutMs: 1_000 }
  for (const connect of [() => connectUrl(`rediss://127.0.0.1:${port}`, options), () => connectTo({ host: '127.0.0.1', port }, options)]) {
    const [before, client] = [connections, connect()]
    t.after(() => { client.disconnect() })
    const errors: string[] = []
    client.on('error', (error: Error) => { errors.push(error.message) })
    await eventually(() => connections > before + 1, 'it connects again')
    assert.match(errors.join('; '), /altnames|bad record type/)
    client.disconnect()
  }
})
