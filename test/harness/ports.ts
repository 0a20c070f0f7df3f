/** A free TCP port of 127.0.0.1. Another process may take it first, so the start of a server tries again. */
import { createServer } from 'node:net'

export async function freePort (): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port of 127.0.0.1 could be had')
  return address.port
}
