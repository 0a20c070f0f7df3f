/** A container without a container: the image's command line, environment and user, its files below a directory of the test. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, cpSync, existsSync, readdirSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { dirname, join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Image } from './shipped.ts'

const IS_ROOT = process.getuid?.() === 0

interface AsUser {
  readonly node: string
  /** Of Node: the entry point with `words` behind it; absent: with the image's own. */
  readonly argv: (words?: readonly string[]) => string[]
  readonly spawn: { readonly uid?: number, readonly gid?: number }
  readonly env: Readonly<Record<string, string>>
}

/** As the image's user, where this one may become another; the application's files are read-only for it then. */
export function asUser ({ user, env, entrypoint, cmd }: Image, root: string): AsUser {
  const below = (text: string): string => text.startsWith('/') ? join(root, text) : text
  const inside = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, below(value)]))
  const argv = (words = cmd): string[] => [...entrypoint.slice(1), ...words].map(below)
  if (!IS_ROOT) return { node: process.execPath, argv, spawn: {}, env: inside }
  for (let above = root; above !== dirname(above) && above.includes('onceway-'); above = dirname(above)) chmodSync(above, 0o755)
  for (const path of [join(root, 'data'), ...readdirSync(join(root, 'data')).map((name) => join(root, 'data', name))]) {
    chownSync(path, user.uid, user.gid)
  }
  return { node: nodeFor(user, root), argv, spawn: user, env: inside }
}

/** This Node, where the user can reach it; else a copy that he can. */
function nodeFor (user: Image['user'], root: string): string {
  if (spawnSync(process.execPath, ['--version'], { ...user, cwd: '/' }).status === 0) return process.execPath
  const copy = join(root, 'node')
  if (!existsSync(copy)) cpSync(process.execPath, copy)
  return copy
}

/** `words`: a command of one's own, in the place of the image's. */
export async function startImage (
  t: TestContext,
  image: Image,
  root: string,
  env: Readonly<Record<string, string>>,
  words?: readonly string[]
): Promise<{ url: string, adminUrl: string, said: () => string }> {
  const { node, argv, spawn: user, env: inside } = asUser(image, root)
  const child = spawn(node, argv(words), {
    ...user,
    cwd: join(root, image.workdir),
    env: { ...inside, ...env, ONCEWAY_DRAIN_DELAY: '0s' },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  const ended = once(child, 'exit').then(() => { throw new Error(`it ended:\n${said}`) })
  ended.catch(() => {})
  let said = ''
  const found = new Promise<RegExpExecArray>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk: Buffer) => {
        said += chunk.toString()
        const match = /listens on (http:\S+) +\(admin: (http:[^)]+)\)[^\n]*\n[\s\S]*routes[^\n]*\n/.exec(said)
        if (match !== null) resolve(match)
      })
    }
  })
  t.after(async () => {
    child.kill('SIGTERM')
    await ended.catch(() => {})
  })
  const [, url = '', adminUrl = ''] = await Promise.race([found, ended])
  return { url, adminUrl, said: () => said }
}

/** An address that is not 127.0.0.1, by which others come: what is bound to loopback alone does not answer there. */
export function externalAddress (): string {
  return Object.values(networkInterfaces())
    .flatMap((each) => each ?? [])
    .find(({ family, internal }) => family === 'IPv4' && !internal)?.address ?? '127.0.0.2'
}
