/** The packages that onceway is compared with (bench/package.json): installed when they are wanted, never with our own. */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const HOME = fileURLToPath(new URL('.', import.meta.url))
const INSTALL_MS_MAX = 300_000

/** null: they are there. Else why not. */
export function missingPackages (): string | null {
  if (missing().length > 0) {
    spawnSync('npm', ['ci', '--no-audit', '--no-fund', '--prefix', HOME], { stdio: 'ignore', timeout: INSTALL_MS_MAX })
  }
  const absent = missing()
  return absent.length === 0 ? null : `${absent.join(', ')} not installed, and npm ci --prefix bench failed`
}

/** One line each. */
export function packageVersions (): string[] {
  return wanted()
    .filter((name) => existsSync(fileOf(name)))
    .map((name) => `${name} ${(JSON.parse(readFileSync(fileOf(name), 'utf8')) as { readonly version: string }).version}`)
}

function missing (): string[] {
  return wanted().filter((name) => !existsSync(fileOf(name)))
}

function wanted (): string[] {
  const { dependencies } = JSON.parse(
    readFileSync(new URL('package.json', import.meta.url), 'utf8')
  ) as { readonly dependencies: Readonly<Record<string, string>> }
  return Object.keys(dependencies)
}

function fileOf (name: string): URL {
  return new URL(`node_modules/${name}/package.json`, import.meta.url)
}
