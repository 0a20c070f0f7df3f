/** onceway as its users run it: built, not from sources whose types Node strips while it starts (30 MiB, which it keeps). */
import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = fileURLToPath(new URL('..', import.meta.url))
const built = new Map<string, string>()

/** Its program. A checkout is built once in a run. Default: this one. Throws what the build says. */
export function builtMain (checkout = HERE): string {
  const root = resolve(checkout)
  const known = built.get(root)
  if (known !== undefined) return known
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: root, stdio: ['ignore', 'ignore', 'inherit'] })
  const main = join(root, 'dist/main.js')
  built.set(root, main)
  return main
}
