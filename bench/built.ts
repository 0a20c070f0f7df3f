/** onceway as its users run it: built, not from sources whose types Node strips while it starts (30 MiB, which it keeps). */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = fileURLToPath(new URL('..', import.meta.url))
const built = new Map<string, readonly string[]>()

/** What Node is told, and the program. A checkout is built once in a run. Default: this one. Throws if it cannot be built. */
export function builtMain (checkout = HERE): readonly string[] {
  const root = resolve(checkout)
  const known = built.get(root)
  if (known !== undefined) return known
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  const main = join(root, 'dist/main.js')
  const command = [...optionsIn(readFileSync(main, 'utf8')), main]
  built.set(root, command)
  return command
}

/** As the first line of an executable script tells them to Node. */
function optionsIn (text: string): string[] {
  return /^#!\/usr\/bin\/env (?:-S )?node(.*)$/m.exec(text)?.[1]?.trim().split(/\s+/).filter((option) => option !== '') ?? []
}
