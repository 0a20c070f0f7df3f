/** nginx and HAProxy as processes of a test, each with a configuration that the test writes. They can be reloaded. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findTool } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { launch } from './process.ts'

export type ProxyName = 'nginx' | 'haproxy'

export interface Proxy {
  readonly name: ProxyName
  readonly version: string
  readonly port: number
  readonly directory: string
  /** Takes another configuration, without cutting a connection. Resolves when only new processes accept. */
  reload: (files: ProxyFiles) => Promise<void>
  stop: () => Promise<void>
}

/** By name, `front.conf` among them. */
export type ProxyFiles = (directory: string) => Readonly<Record<string, string>>

const STARTS_WITHIN_MS = 20_000
const LOOK_EVERY_MS = 50

/** `port`: where the configuration listens, on 127.0.0.1. */
export async function startProxy (name: ProxyName, port: number, files: ProxyFiles): Promise<Proxy> {
  const source = findTool(name)
  if (source.kind !== 'binaries') throw new Error(`there is no ${name}: ${source.kind === 'none' ? source.why : 'a container is none'}`)
  const directory = makeDirectory(name, tmpdir())
  const [program, config] = [join(source.directory, name), join(directory.path, 'front.conf')]
  const write = (wanted: ProxyFiles): void => {
    for (const [file, text] of Object.entries(wanted(directory.path))) writeFileSync(join(directory.path, file), text)
  }
  write(files)
  const args = name === 'nginx' ? ['-c', config, '-p', directory.path, '-g', 'daemon off;'] : ['-W', '-db', '-f', config]
  const launched = launch({ file: program, args, directory: directory.path, log: join(directory.path, 'log'), endSignal: 'SIGKILL' })
  for (const endsAt = performance.now() + STARTS_WITHIN_MS; !await answers(port);) {
    if (performance.now() > endsAt || !launched.running()) throw new Error(`${name} does not start:\n${launched.lastLog()}`)
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
  return {
    name,
    version: versionOf(program, name),
    port,
    directory: directory.path,
    reload: async (wanted) => {
      write(wanted)
      const test = spawnSync(program, [...args.slice(0, name === 'nginx' ? 4 : 0), ...name === 'nginx' ? ['-t'] : ['-c', '-f', config]], {
        cwd: directory.path, encoding: 'utf8'
      })
      if (test.status !== 0) throw new Error(`${name} refuses its new configuration:\n${test.stdout}${test.stderr}`)
      process.kill(launched.pid, name === 'nginx' ? 'SIGHUP' : 'SIGUSR2')
      await Promise.resolve()
    },
    stop: async () => { await launched.killAll(); directory.remove() }
  }
}

/** What nginx needs around a server: everything that it writes is in its directory. */
export function nginxAround (directory: string, http: string): string {
  return `
worker_processes 1;
pid ${directory}/pid;
error_log ${directory}/error.log crit;
events { worker_connections 1024; }
http {
  access_log off;
  client_body_temp_path ${directory}/body; proxy_temp_path ${directory}/proxy; fastcgi_temp_path ${directory}/fastcgi; uwsgi_temp_path ${directory}/uwsgi; scgi_temp_path ${directory}/scgi;
${http}
}
`
}

async function answers (port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => { socket.destroy(); resolve(true) })
    socket.once('error', () => { resolve(false) })
  })
}

function versionOf (file: string, name: ProxyName): string {
  const { stdout, stderr } = spawnSync(file, ['-v'], { encoding: 'utf8' })
  return /[0-9]+\.[0-9]+(?:\.[0-9]+)?/.exec(`${stdout}${stderr}`)?.[0] ?? `${name} of unknown version`
}
