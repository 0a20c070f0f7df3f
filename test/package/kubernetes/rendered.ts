/** deploy/kubernetes as kubectl renders it, and what is found in it. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { findTool } from '../../harness/binaries.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { ROOT } from '../shipped.ts'

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- Kubernetes' own shapes, checked by schemas.ts
type Spec = any

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string, readonly namespace?: string, readonly labels?: Readonly<Record<string, string>> }
  readonly spec?: Spec
  readonly data?: Readonly<Record<string, string>>
}

const KUBERNETES = join(ROOT, 'deploy/kubernetes')

export function render (directory: string): Manifest[] {
  const kubectl = findTool('kubectl')
  if (kubectl.kind !== 'binaries') throw new Error('kubectl was looked for by needs()')
  const text = execFileSync(join(kubectl.directory, 'kubectl'), ['kustomize', directory], { encoding: 'utf8' })
  return parseAllDocuments(text).map((document) => document.toJS() as Manifest)
}

export function renderOverlay (name: string): Manifest[] {
  return render(join(KUBERNETES, 'overlays', name))
}

/** A directory of a user's own. `$KUBERNETES` in the text is deploy/kubernetes, and each file stands beside it. */
export function renderOwn (kustomization: string, files: Readonly<Record<string, string>> = {}): Manifest[] {
  const directory = makeDirectory('kustomization')
  try {
    const own = join(directory.path, 'own')
    mkdirSync(own)
    for (const [name, text] of Object.entries(files)) writeFileSync(join(own, name), text)
    writeFileSync(join(own, 'kustomization.yaml'), kustomization.replaceAll('$KUBERNETES', relative(own, KUBERNETES)))
    return render(own)
  } finally {
    directory.remove()
  }
}

export function oneOf (manifests: readonly Manifest[], kind: string, name = 'onceway'): Manifest {
  const [found, ...more] = manifests.filter(({ kind: its, metadata }) => its === kind && metadata.name === name)
  if (found === undefined || more.length > 0) throw new Error(`not one ${kind} ${name}`)
  return found
}

/** The configuration of the gateways: the only ConfigMap. */
export function configurationOf (manifests: readonly Manifest[]): { readonly name: string, readonly text: string } {
  const [found, ...more] = manifests.filter(({ kind }) => kind === 'ConfigMap')
  const text = found?.data?.['onceway.yaml']
  if (found === undefined || text === undefined || more.length > 0) throw new Error('not one ConfigMap with onceway.yaml')
  return { name: found.metadata.name, text }
}

/** The pods of the gateways and of the migration. */
export function podsOf (manifests: readonly Manifest[]): Spec[] {
  return [oneOf(manifests, 'Deployment'), oneOf(manifests, 'Job', 'onceway-migrate')].map(({ spec }) => spec.template)
}

export function containerOf ({ spec }: Manifest): Spec {
  const [container, ...more] = spec.template.spec.containers as Spec[]
  if (container === undefined || more.length > 0) throw new Error('not one container')
  return container
}
