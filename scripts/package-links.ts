/**
 * Before `npm pack`: links of shipped pages to what only the repository has (tests, benchmarks, examples) become their
 * text alone. Behind it, `--restore` brings the pages back. The originals are kept under .package/ meanwhile.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../', import.meta.url))
const ORIGINALS = join(ROOT, '.package')
const LINK = /\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)[^)]*\)/g

// Also before: one that was broken off has left them there.
restore()
if (!process.argv.includes('--restore')) takeOut(shipped())

function restore (): void {
  if (!existsSync(ORIGINALS)) return
  cpSync(ORIGINALS, ROOT, { recursive: true })
  rmSync(ORIGINALS, { recursive: true })
}

function takeOut (files: readonly string[]): void {
  const isShipped = (path: string): boolean => files.some((file) => file === path || file.startsWith(`${path}/`))
  for (const page of files.filter((file) => file.endsWith('.md'))) {
    const text = readFileSync(join(ROOT, page), 'utf8')
    const packed = text.replace(
      LINK,
      (link, label: string, target: string) => isShipped(normalize(join(dirname(page), target)).replace(/\/$/, '')) ? link : label
    )
    if (packed === text) continue
    mkdirSync(join(ORIGINALS, dirname(page)), { recursive: true })
    writeFileSync(join(ORIGINALS, page), text)
    writeFileSync(join(ROOT, page), packed)
  }
}

/** As npm itself says. */
function shipped (): string[] {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const { npm_execpath: npm } = process.env
  const said = npm === undefined
    ? execFileSync('npm', args, { cwd: ROOT, encoding: 'utf8' })
    : execFileSync(process.execPath, [npm, ...args], { cwd: ROOT, encoding: 'utf8' })
  const [{ files }] = JSON.parse(said) as [{ readonly files: ReadonlyArray<{ readonly path: string }> }]
  return files.map(({ path }) => path)
}
