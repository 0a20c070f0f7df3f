/** A free TCP port of 127.0.0.1. Another process may take it first, so the start of a server tries again. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { connect, createServer } from 'node:net'

/**
 * Below the ports from which Linux takes those of outgoing connections (ip_local_port_range, from 32768 on). A server that starts again on
 * its port would find it taken by a connection of somebody else.
 */
const [LOWEST, BEYOND] = [10_240, 32_768]
/** Each further one is as free as the first: only a machine without ports gets there. */
const TRIES_MAX = 100

export async function freePort (): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(LOWEST, BEYOND)
    if (await isFree(port)) return port
  }
  throw new Error('no port of 127.0.0.1 could be had')
}

async function isFree (port: number): Promise<boolean> {
  const server = createServer()
  const listens = await new Promise<boolean>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(false)
      else reject(error)
    })
    server.listen(port, '127.0.0.1', () => { resolve(true) })
  })
  if (listens) await new Promise((resolve) => server.close(resolve))
  return listens
}

/** Whether somebody listens there. */
export async function accepts (port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
