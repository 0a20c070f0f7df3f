/** What is handed out, made as it is made for users: the npm package, and the files of the image as the Dockerfile says. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const SOURCES = [
  'package.json', 'package-lock.json', '.npmrc', 'README.md', 'ARCHITECTURE.md', 'CHANGELOG.md', 'CONTRIBUTING.md',
  'LICENSE', 'tsconfig.json', 'tsconfig.build.json', 'src', 'docs', 'deploy', 'migrations', 'schema', 'scripts',
  'examples', 'bench', 'tools'
]

export const run = promisify(execFile)

/** A copy of the tree in which a package can be made while others use this one. */
function copyOfTree (directory: string): string {
  for (const name of SOURCES) {
    cpSync(join(ROOT, name), join(directory, name), { recursive: true, filter: (path) => !path.includes('/node_modules/') })
  }
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'))
  // `npm run typecheck` checks the same sources.
  const build = join(directory, 'tsconfig.build.json')
  writeFileSync(build, readFileSync(build, 'utf8').replace('"noEmit": false,', '"noEmit": false, "noCheck": true,'))
  return directory
}

/** `npm pack` in a copy of the tree. The file that it made, and the package's files, taken out. */
export async function pack (directory: string): Promise<{ readonly tree: string, readonly tarball: string, readonly files: string }> {
  const tree = copyOfTree(join(directory, 'tree'))
  await run('npm', ['pack', '--pack-destination', directory], { cwd: tree })
  const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { readonly version: string }
  const tarball = join(directory, `onceway-${version}.tgz`)
  await run('tar', ['-xzf', tarball, '-C', directory])
  return { tree, tarball, files: join(directory, 'package') }
}

interface Locked { readonly dev?: true, readonly link?: true, readonly optional?: true }

/** What `npm ci --omit=dev` leaves: the lock file's packages without those for development. */
export function copyDependencies (directory: string): void {
  const { packages } = JSON.parse(
    readFileSync(join(ROOT, 'package-lock.json'), 'utf8')
  ) as { readonly packages: Readonly<Record<string, Locked>> }
  for (const [path, { dev, link, optional }] of Object.entries(packages)) {
    if (!path.startsWith('node_modules/') || dev === true || link === true || optional === true) continue
    cpSync(join(ROOT, path), join(directory, path), {
      recursive: true,
      filter: (from) => !from.slice(join(ROOT, path).length).includes('/node_modules')
    })
  }
}

// -------------------------------------------------------------- the image

export interface Image {
  readonly env: Readonly<Record<string, string>>
  readonly workdir: string
  readonly user: { readonly uid: number, readonly gid: number }
  readonly ports: readonly number[]
  readonly entrypoint: readonly string[]
  readonly cmd: readonly string[]
  readonly healthcheck: readonly string[]
  /** [sources, destination] of this directory, and those of the stage that builds. */
  readonly copies: ReadonlyArray<{ readonly built: boolean, readonly from: readonly string[], readonly to: string }>
}

/** The last stage of the Dockerfile. */
export function readImage (): Image {
  const text = readFileSync(join(ROOT, 'Dockerfile'), 'utf8').replace(/^#.*\n/gm, '').replace(/\\\n/g, ' ')
  const lines = text.slice(text.lastIndexOf('\nFROM ')).split('\n').map((line) => line.trim())
  const all = (word: string): string[] => lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.slice(word.length).trim())
  const one = (word: string): string => all(word)[0] ?? ''
  const [uid = 0, gid = 0] = one('USER').split(':').map(Number)
  return {
    env: Object.fromEntries(all('ENV')
      .flatMap((each) => each.split(/\s+/))
      .map((each) => [each.slice(0, each.indexOf('=')), each.slice(each.indexOf('=') + 1)])),
    workdir: one('WORKDIR'),
    user: { uid, gid },
    ports: one('EXPOSE').split(/\s+/).map(Number),
    entrypoint: JSON.parse(one('ENTRYPOINT')) as string[],
    cmd: JSON.parse(one('CMD')) as string[],
    healthcheck: JSON.parse(/CMD (\[.*\])/.exec(one('HEALTHCHECK'))?.[1] ?? '[]') as string[],
    copies: all('COPY').map((each) => {
      const words = each.split(/\s+/).filter((word) => !word.startsWith('--'))
      return { built: each.includes('--from=build'), from: words.slice(0, -1), to: words.at(-1) as string }
    })
  }
}

/** The image's files below `root`. What a stage before has built is made here: the packages that run, and plain JavaScript. */
export function layOut ({ workdir, copies, env }: Image, root: string): void {
  const place = join(root, workdir)
  for (const directory of [place, join(root, env.ONCEWAY_DEFAULT_DATA_DIR ?? '/data'), join(root, 'etc/onceway')]) {
    mkdirSync(directory, { recursive: true })
  }
  for (const { built, from, to } of copies) {
    for (const source of from) {
      if (source === '/app/node_modules') copyDependencies(place)
      else if (source === '/app/dist') stripTypes(join(ROOT, 'src'), join(place, to))
      else if (built) throw new Error(`nobody makes ${source}`)
      else cpSync(join(ROOT, source), to.endsWith('/') ? join(place, to, source) : join(place, to), { recursive: true })
    }
  }
}

/** As tsc does with sources whose types can be stripped, at a fiftieth of the time; package.test.ts runs what tsc makes. */
function stripTypes (from: string, to: string): void {
  for (const name of readdirSync(from, { recursive: true, encoding: 'utf8' }).filter((each) => each.endsWith('.ts'))) {
    mkdirSync(dirname(join(to, name)), { recursive: true })
    const text = stripTypeScriptTypes(readFileSync(join(from, name), 'utf8'))
    writeFileSync(join(to, name.replace(/\.ts$/, '.js')), text.replace(/((?:from|import|import\()\s*'\.[^']*)\.ts'/g, "$1.js'"))
  }
}
