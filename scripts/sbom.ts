/**
 * The bill of materials of what runs, on stdout: CycloneDX, from the lock file, by npm. npm's own `--omit dev` leaves out
 * packages that development needs as well (npm 11.19: undici and 22 more); so all are listed, and those of development alone taken out.
 */
import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

interface Component { readonly 'bom-ref': string, name: string, readonly properties?: ReadonlyArray<{ readonly name: string }> }
interface Dependency { readonly ref: string, readonly dependsOn?: readonly string[] }
interface Bom {
  readonly metadata: { readonly component: Component }
  components: readonly Component[]
  dependencies: readonly Dependency[]
}

const root = fileURLToPath(new URL('../', import.meta.url))
const bom = JSON.parse(
  execFileSync(
    'npm',
    ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'application', '--package-lock-only'],
    { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024, stdio: ['ignore', 'pipe', 'inherit'] }
  )
) as Bom

// npm names it by its directory.
bom.metadata.component.name = bom.metadata.component['bom-ref'].replace(/@[^@]*$/, '')
bom.components = bom.components.filter(({ properties = [] }) => !properties.some(({ name }) => name === 'cdx:npm:package:development'))
const kept = new Set([bom.metadata.component, ...bom.components].map((component) => component['bom-ref']))
bom.dependencies = bom.dependencies.flatMap(({ ref, dependsOn = [] }) =>
  kept.has(ref) ? [{ ref, dependsOn: dependsOn.filter((each) => kept.has(each)) }] : [])
process.stdout.write(`${JSON.stringify(bom, null, 2)}\n`)
