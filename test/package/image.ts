/**
 * The image, built by buildah from the Dockerfile and run by crun. The base is made from Debian's packages and the Node of the
 * lock file, so no registry of images is needed. It is kept in node_modules/.cache. Nothing here needs an engine, a network of its
 * own or cgroups.
 */
import { execFile, spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chownSync, copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { promisify } from 'node:util'
import { makeDirectory } from '../harness/directory.ts'
import type { Directory } from '../harness/directory.ts'
import { atExit } from '../harness/exit.ts'
import { started } from '../harness/process-gateway.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'
import { ROOT } from './shipped.ts'

const run = promisify(execFile)

const CACHE = join(ROOT, 'node_modules/.cache/onceway-image')
const NODE = realpathSync(join(ROOT, 'node_modules/.bin/node'))
const DEBIAN = 'bookworm'
/** Beside the essential packages: what Node's binary is linked to, and the authorities. */
const PACKAGES = 'libstdc++6,ca-certificates'
/** Packages are fetched. A build takes a minute. */
const STEP_MS_MAX = 200_000
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024

/** vfs copies all files for each step, and works where overlays do not (in containers). An image's signature is no subject here. */
const STORE = ['overlay', 'vfs']
  .map((driver) => ['--root', join(CACHE, driver), '--runroot', join(CACHE, `${driver}-run`), '--storage-driver', driver])
  .find((store) => spawnSync('buildah', [...store, 'info'], { stdio: 'ignore' }).status === 0) ?? []
const POLICY = ['--signature-policy', join(CACHE, 'policy.json')]

/** What `docker inspect` shows of an image. */
export interface ImageConfig {
  readonly User: string
  readonly Env: readonly string[]
  readonly Cmd: readonly string[]
  readonly Entrypoint: readonly string[]
  readonly WorkingDir: string
  readonly ExposedPorts: Readonly<Record<string, object>>
  readonly Volumes: Readonly<Record<string, object>>
  readonly Healthcheck: { readonly Test: readonly string[] }
  readonly StopSignal: NodeJS.Signals
}

export interface Image {
  readonly config: ImageConfig
  readonly user: { readonly uid: number, readonly gid: number }
  /** Its files. Containers have them read-only. */
  readonly root: string
  readonly remove: () => Promise<void>
}

export interface RunOptions {
  readonly env?: Readonly<Record<string, string>>
  /** A command instead of the image's. */
  readonly words?: readonly string[]
  /** The text of /etc/onceway/onceway.yaml. Absent: nothing is mounted. */
  readonly file?: string
  /** A volume. Absent: a new one. */
  readonly data?: string
}

export interface Ended { readonly status: number | null, readonly stdout: string, readonly stderr: string }

export interface Container extends ProcessGateway {
  /** What is at /data. */
  readonly data: string
  readonly exec: (words: readonly string[], env?: Readonly<Record<string, string>>) => Ended
  /** What the engine does at `docker stop`. */
  readonly stop: () => void
}

async function buildah (...args: readonly string[]): Promise<string> {
  const { stdout } = await run('buildah', [...STORE, ...args], { timeout: STEP_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX })
  return stdout.trim()
}

async function build (args: readonly string[], context: string): Promise<void> {
  // Without layers, a step is not kept, and a second build is a whole one. Only Docker's format has a health check.
  await buildah('build', ...POLICY, '--isolation', 'chroot', '--network', 'host', '--layers=false', '--format', 'docker', ...args, context)
}

/** @throws if a step fails, with what it said */
export async function buildImage (): Promise<Image> {
  const base = await baseImage()
  await removeOlder(base)
  const directory = makeDirectory('npmrc', tmpdir())
  const tag = `localhost/onceway:${process.pid}`
  try {
    await build(['--build-arg', `BASE=${base}`, ...npmVolumes(directory), '-t', tag], ROOT)
  } finally { directory.remove() }
  const config = (JSON.parse(await buildah('inspect', '--type', 'image', tag)) as { Docker: { config: ImageConfig } }).Docker.config
  const container = await buildah('from', '--pull-never', ...POLICY, tag)
  const [uid = 0, gid = 0] = config.User.split(':').map(Number)
  return {
    config,
    user: { uid, gid },
    root: await buildah('mount', container),
    remove: async () => {
      await buildah('rm', container)
      await buildah('rmi', '--force', tag)
    }
  }
}

/** Debian, Node and npm, as an image from a registry has them. */
async function baseImage (): Promise<string> {
  const npm = join(said('npm', 'root', '--global'), 'npm')
  const parts = [DEBIAN, PACKAGES, said(NODE, '--version'), readFileSync(join(npm, 'package.json'), 'utf8')]
  const tag = `localhost/onceway-base:${createHash('sha256').update(parts.join()).digest('hex').slice(0, 12)}`
  mkdirSync(CACHE, { recursive: true })
  writeFileSync(join(CACHE, 'policy.json'), JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }] }))
  if ((await buildah('images', '--format', '{{.Name}}:{{.Tag}}')).split('\n').includes(tag)) return tag
  const directory = makeDirectory('base', tmpdir())
  try {
    const at = (name: string): string => join(directory.path, name)
    const args = ['--variant=essential', `--include=${PACKAGES}`, DEBIAN, at('debian.tar')]
    await run('mmdebstrap', args, { timeout: STEP_MS_MAX, maxBuffer: OUTPUT_BYTES_MAX })
    copyFileSync(NODE, at('node'))
    cpSync(npm, at('npm'), { recursive: true })
    writeFileSync(at('Dockerfile'), [
      'FROM scratch', 'ADD debian.tar /', 'COPY node /usr/local/bin/node', 'COPY npm /usr/local/lib/node_modules/npm',
      'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm', ''
    ].join('\n'))
    await build(['-t', tag], directory.path)
  } finally { directory.remove() }
  return tag
}

/** What a test process left that was killed, and bases of before. */
async function removeOlder (base: string): Promise<void> {
  const lines = (text: string): string[] => text.split('\n').filter(Boolean)
  const containers = lines(await buildah('containers', '--quiet'))
  if (containers.length > 0) await buildah('rm', ...containers)
  const images = lines(await buildah('images', '--format', '{{.Name}}:{{.Tag}}')).filter((image) => image !== base)
  if (images.length > 0) await buildah('rmi', '--force', ...images)
}

function said (file: string, ...args: readonly string[]): string {
  return spawnSync(file, args, { encoding: 'utf8' }).stdout.trim()
}

/** npm asks the registry of this machine in the way of this machine, and takes what this machine has fetched before. */
function npmVolumes ({ path }: Directory): string[] {
  const config = (name: string): string => said('npm', 'config', 'get', name)
  const [authorities, user, cache] = [config('cafile'), config('userconfig'), config('cache')]
  const lines = ['prefer-offline=true', 'cache=/var/cache/npm', `registry=${config('registry')}`]
  const volumes = [`${cache}:/var/cache/npm`]
  if (existsSync(authorities)) {
    lines.push('cafile=/usr/local/etc/npm-authorities.pem')
    volumes.push(`${authorities}:/usr/local/etc/npm-authorities.pem:ro`)
  }
  if (existsSync(user)) volumes.push(`${user}:/root/.npmrc:ro`)
  mkdirSync(cache, { recursive: true })
  writeFileSync(join(path, 'npmrc'), `${lines.join('\n')}\n`)
  return [...volumes, `${join(path, 'npmrc')}:/usr/local/etc/npmrc:ro`].flatMap((volume) => ['--volume', volume])
}

/**
 * crun without cgroups: it refuses machines with both versions of them, even if it uses none. So it sees none, in a mount namespace of
 * its own.
 */
const CRUN = 'umount -R /sys/fs/cgroup 2>/dev/null; mount -t tmpfs none /sys/fs/cgroup; exec crun "$@"'

function crunArgs (state: string, ...args: readonly string[]): string[] {
  return ['--mount', 'sh', '-c', CRUN, 'crun', '--root', state, '--cgroup-manager=disabled', ...args]
}

/** Resolves when it listens. It ends with the test. */
export async function startImage (t: TestContext, image: Image, options: RunOptions = {}): Promise<Container> {
  const bundle = makeDirectory('bundle', tmpdir())
  const [state, id] = [join(bundle.path, 'state'), `onceway-${process.pid}-${bundle.path.slice(-6)}`]
  const data = options.data ?? join(bundle.path, 'data')
  mkdirSync(data, { recursive: true })
  chownSync(data, image.user.uid, image.user.gid)
  const mounted = join(bundle.path, 'etc')
  if (options.file !== undefined) {
    mkdirSync(mounted)
    writeFileSync(join(mounted, 'onceway.yaml'), options.file)
  }
  writeFileSync(join(bundle.path, 'config.json'), JSON.stringify(specOf(image, options, { data, mounted })))
  const crun = (...args: readonly string[]): Ended => runCrun(state, ...args)
  const child = spawn('unshare', crunArgs(state, 'run', '--bundle', bundle.path, id), { stdio: ['ignore', 'pipe', 'pipe'] })
  const forget = atExit(() => { crun('delete', '--force', id) })
  const gateway = started(child)
  t.after(async () => {
    crun('delete', '--force', id)
    await gateway.then(({ exited }) => exited, () => {})
    forget()
    bundle.remove()
  })
  return {
    ...await gateway,
    data,
    stop: () => { crun('kill', id, image.config.StopSignal) },
    exec: (words, env = {}) => {
      writeFileSync(join(bundle.path, 'process.json'), JSON.stringify(processOf(image, words, { ...options.env, ...env })))
      return crun('exec', '--process', join(bundle.path, 'process.json'), id)
    }
  }
}

/** Runs until it ends, with nothing mounted. */
export function runToEnd (image: Image): Ended {
  const { path, remove } = makeDirectory('bundle', tmpdir())
  try {
    writeFileSync(join(path, 'config.json'), JSON.stringify(specOf(image, {}, { data: path, mounted: '' })))
    return runCrun(join(path, 'state'), 'run', '--bundle', path, `onceway-${process.pid}`)
  } finally { remove() }
}

function runCrun (state: string, ...args: readonly string[]): Ended {
  return spawnSync('unshare', crunArgs(state, ...args), { encoding: 'utf8', timeout: STEP_MS_MAX })
}

function processOf ({ config, user }: Image, args: readonly string[], env: Readonly<Record<string, string>>): object {
  return {
    user,
    cwd: config.WorkingDir,
    args,
    env: [...config.Env, ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
    noNewPrivileges: true,
    capabilities: Object.fromEntries(['bounding', 'effective', 'permitted', 'inheritable', 'ambient'].map((set) => [set, []]))
  }
}

/** As the Deployment of the guide: a read-only root, no capability, one volume. The network is the machine's. */
function specOf (image: Image, { env = {}, words, file }: RunOptions, { data, mounted }: { data: string, mounted: string }): object {
  const [volume = ''] = Object.keys(image.config.Volumes)
  return {
    ociVersion: '1.0.0',
    process: processOf(image, [...image.config.Entrypoint, ...words ?? image.config.Cmd], env),
    root: { path: image.root, readonly: true },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      { destination: '/dev', type: 'tmpfs', source: 'tmpfs', options: ['nosuid', 'mode=755', 'size=65536k'] },
      { destination: volume, type: 'bind', source: data, options: ['rbind', 'rw', 'nosuid', 'nodev'] },
      ...file === undefined ? [] : [{ destination: '/etc/onceway', type: 'bind', source: mounted, options: ['rbind', 'ro'] }]
    ],
    linux: { namespaces: ['pid', 'mount', 'ipc', 'uts'].map((type) => ({ type })), readonlyPaths: ['/proc/sys'] }
  }
}
