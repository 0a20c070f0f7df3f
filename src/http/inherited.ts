/** Listening sockets that a service manager hands over (systemd's socket activation, sd_listen_fds(3)). */
import { fstatSync, readFileSync } from 'node:fs'
import { StartError } from '../ports/errors.ts'

/** Descriptors. null: the process opens that port itself. */
export interface Inherited { readonly guarded: number | null, readonly admin: number | null }

export const NONE_INHERITED: Inherited = { guarded: null, admin: null }

/** Behind standard input, output and error. */
const FIRST = 3
const LISTENERS = ['guarded', 'admin'] as const

/**
 * Sockets named `guarded` and `admin` are for those ports. If neither name is given, the first is guarded, and the second is the admin
 * port. Variables of another process are ignored, as sd_listen_fds does. @throws StartError
 */
export function inheritedSockets (env: Readonly<Record<string, string | undefined>>, pid: number): Inherited {
  const { LISTEN_PID = '', LISTEN_FDS = '', LISTEN_FDNAMES = '' } = env
  const count = Number(LISTEN_FDS)
  if (LISTEN_PID !== String(pid) || !Number.isInteger(count) || count < 1) return NONE_INHERITED
  if (count > LISTENERS.length) {
    throw new StartError(`The service manager hands over ${count} sockets (LISTEN_FDS): onceway has two ports, guarded and admin.`, 2)
  }
  const names = LISTEN_FDNAMES.split(':').slice(0, count)
  const isNamed = names.some((name) => LISTENERS.some((each) => each === name))
  const find = (listener: typeof LISTENERS[number], place: number): number | null => {
    const index = isNamed ? names.indexOf(listener) : place
    return index >= 0 && index < count ? FIRST + index : null
  }
  const found = { guarded: find('guarded', 0), admin: find('admin', 1) }
  if (Object.values(found).filter((each) => each !== null).length === count) return found
  throw new StartError(
    `The service manager hands over sockets named ${names.join(', ')} (FileDescriptorName=): name one guarded and the other admin.`,
    2
  )
}

/** Node says so only after it listens, and then Fastify throws where nobody catches it. false: nobody knows. */
export function isUnixSocket (descriptor: number): boolean {
  const inode = String(fstatSync(descriptor).ino)
  return unixSockets().split('\n').some((line) => line.trim().split(/\s+/)[INODE] === inode)
}

/** Column of /proc/net/unix, proc_net_unix(5). */
const INODE = 6

function unixSockets (): string {
  try {
    return readFileSync('/proc/net/unix', 'utf8')
  } catch {
    return ''
  }
}
