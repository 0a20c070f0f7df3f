/**
 * Releases that run side by side: the one before, out of its archive; the tree under test; and copies of the tree that were
 * spoiled on purpose. Each is a directory with a src/main.ts.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeDirectory } from '../harness/directory.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BEFORE = '81f17ca'
const ARCHIVE = fileURLToPath(new URL(`fixture/release-${BEFORE}.tar.gz`, import.meta.url))
/** What a release is made of, beside the modules that it needs. */
const PARTS = ['src', 'migrations', 'schema', 'package.json']

export interface Release {
  readonly name: string
  readonly directory: string
  readonly main: string
  /** Of its processes; what they compiled goes away with them. */
  readonly env: Readonly<Record<string, string>>
}

type Store = 'postgres' | 'sqlite'

export const TREE: Release = { name: 'the tree', directory: ROOT, main: join(ROOT, 'src/main.ts'), env: {} }

/**
 * The release before, unpacked. Not below node_modules, where Node strips no types: a link leads its imports there. It goes
 * away with this process.
 */
export function releaseBefore (): Release {
  const directory = makeDirectory('release').path
  const { status, stderr } = spawnSync('tar', ['-xzf', ARCHIVE, '-C', directory], { encoding: 'utf8' })
  if (status !== 0) throw new Error(`${ARCHIVE} cannot be unpacked: ${stderr}`)
  refuseOtherModules(directory)
  return linked(BEFORE, directory)
}

/** `[file, find, replace]`: in every file below it; or a file of its own, without `find`. */
export type Spoil = readonly [below: string, find: RegExp | null, replace: string]

/** The tree with a fault that an upgrade must not have. */
export function spoiledTree (name: string, spoils: readonly Spoil[]): Release {
  const directory = makeDirectory('spoiled').path
  for (const part of PARTS) cpSync(join(ROOT, part), join(directory, part), { recursive: true })
  for (const [below, find, replace] of spoils) {
    if (find === null) writeFileSync(join(directory, below), replace)
    else replaceAll(join(directory, below), find, replace)
  }
  return linked(name, directory)
}

/** The migrations that a release knows: of each its number, and the oldest that a build must know beside it. */
export function migrationsOf ({ directory }: Release, store: Store): Array<{ readonly number: number, readonly compatibleFrom: number }> {
  const below = join(directory, 'migrations', store)
  return readdirSync(below).filter((name) => name.endsWith('.sql')).toSorted().map((name) => ({
    number: Number(name.slice(0, 4)),
    compatibleFrom: Number(/^-- compatible_from: (\d+)$/m.exec(readFileSync(join(below, name), 'utf8'))?.[1])
  }))
}

/** Whether the migrations of `later` let `earlier` run on what they have made. */
export function mayGoBack (earlier: Release, later: Release, store: Store): boolean {
  const newest = migrationsOf(earlier, store).at(-1)?.number ?? 0
  return migrationsOf(later, store).every(({ compatibleFrom }) => compatibleFrom <= newest)
}

function linked (name: string, directory: string): Release {
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  const compiled = join(directory, 'compiled')
  mkdirSync(compiled)
  return { name, directory, main: join(directory, 'src/main.ts'), env: { NODE_COMPILE_CACHE: compiled } }
}

interface Package { readonly dependencies: Readonly<Record<string, string>>, readonly devDependencies: Readonly<Record<string, string>> }

function packageOf (directory: string): Package {
  return JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')) as Package
}

function refuseOtherModules (directory: string): void {
  const theirs = packageOf(directory).dependencies
  const { dependencies, devDependencies } = packageOf(ROOT)
  const ours = { ...devDependencies, ...dependencies }
  for (const [name, range] of Object.entries(theirs)) {
    if (ours[name] !== range) {
      throw new Error(`release ${BEFORE} needs ${name} ${range}, the tree has ${ours[name] ?? 'none'}: it cannot run on the tree's node_modules any more, and upgrades from it are not tested; give test/upgrade a newer release, or its own modules`)
    }
  }
}

function replaceAll (path: string, find: RegExp, replace: string): void {
  let times = 0
  for (const file of path.endsWith('.ts')
    ? [path]
    : readdirSync(path, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')).map((name) => join(path, name))) {
    const text = readFileSync(file, 'utf8')
    times += text.match(find)?.length ?? 0
    writeFileSync(file, text.replace(find, replace))
  }
  if (times === 0) throw new Error(`nothing to spoil in ${path}: ${find.source}`)
}
