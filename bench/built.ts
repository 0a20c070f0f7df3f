/**
 * onceway as its users run it: built, not from sources whose types Node strips while it starts (30 MiB, which it keeps). In a directory of
 * its own, since several runs may build at a time.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = fileURLToPath(new URL('..', import.meta.url))
/** What the program looks for beside its own directory. */
const BESIDE = ['package.json', 'node_modules', 'migrations', 'schema', 'src']
const built = new Map<string, readonly string[]>()

/** What Node is told, and the program. A checkout is built once in a run. Default: this one. Throws if it cannot be built. */
export function builtMain (checkout = HERE): readonly string[] {
  const root = resolve(checkout)
  const known = built.get(root)
  if (known !== undefined) return known
  const directory = mkdtempSync(join(tmpdir(), 'onceway-built-'))
  process.on('exit', () => { rmSync(directory, { recursive: true, force: true }) })
  for (const name of BESIDE) symlinkSync(join(root, name), join(directory, name))
  execFileSync(
    process.execPath,
    [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'tsconfig.build.json'), '--outDir', join(directory, 'dist')],
    { stdio: 'inherit' }
  )
  const main = join(directory, 'dist/main.js')
  const command = [...optionsIn(readFileSync(main, 'utf8')), main]
  built.set(root, command)
  return command
}

/** As the first line of an executable script tells them to Node. */
function optionsIn (text: string): string[] {
  return /^#!\/usr\/bin\/env (?:-S )?node(.*)$/m.exec(text)?.[1]?.trim().split(/\s+/).filter((option) => option !== '') ?? []
}
