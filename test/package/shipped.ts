/** The npm package, made as it is made for users. image.ts makes the image. */
import { execFile } from 'node:child_process'
import { cpSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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

/** How the image starts Node, as the Dockerfile says. */
export function imageEntrypoint (): string[] {
  return JSON.parse(dockerfile('ENTRYPOINT')) as string[]
}

/** The arguments of an instruction of the Dockerfile's last stage. */
export function dockerfile (instruction: 'ENTRYPOINT' | 'EXPOSE' | 'USER'): string {
  return new RegExp(`^${instruction} (.+)$`, 'm').exec(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'))?.[1] ?? ''
}
