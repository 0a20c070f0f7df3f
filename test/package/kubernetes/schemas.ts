/**
 * Mistakes in manifests, by what kubernetes-models makes of the OpenAPI documents of Kubernetes and the Prometheus Operator. Its
 * validators know patterns, formats and what is required, but take any unknown field. Its types know every field and every
 * value. So each manifest passes both, the second one as a literal in a program that TypeScript checks.
 */
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import ts from 'typescript'
import { ROOT } from '../shipped.ts'
import type { Manifest } from './rendered.ts'

/** Below the tests, so that packages are found. It is never written. */
const FILE = join(ROOT, 'test/package/kubernetes/literals.ts')
const OPTIONS: ts.CompilerOptions = {
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  types: [],
  target: ts.ScriptTarget.ESNext,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext
}

/** For each manifest what is wrong with it, in its order. */
export async function mistakesOf (manifests: readonly Manifest[]): Promise<string[][]> {
  const typed = mistakesOfTypes(manifests)
  return Promise.all(manifests.map(async (manifest, number) => [...await mistakesOfValues(manifest), ...typed[number] ?? []]))
}

function moduleOf ({ apiVersion, kind }: Manifest): string {
  const home = apiVersion.startsWith('monitoring.coreos.com/') ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'
  return `${home}/${apiVersion}/${kind}`
}

interface Model { readonly validate: () => void }

async function mistakesOfValues (manifest: Manifest): Promise<string[]> {
  try {
    const path = createRequire(import.meta.url).resolve(moduleOf(manifest), { conditions: new Set(['import', 'node']) } as object)
    const found = await import(pathToFileURL(path).href) as Record<string, new (data: Manifest) => Model>
    const Kind = found[manifest.kind]
    if (Kind === undefined) return [`no kind ${manifest.kind} in ${manifest.apiVersion}`]
    new Kind(manifest).validate()
    return []
  } catch (error) {
    return [(error as Error).message]
  }
}

function mistakesOfTypes (manifests: readonly Manifest[]): string[][] {
  const lines = manifests.map((manifest, number) =>
    `export const m${number}: import('${moduleOf(manifest)}').I${manifest.kind} = ${JSON.stringify(manifest)}`)
  const host = ts.createCompilerHost(OPTIONS)
  const read = host.getSourceFile.bind(host)
  const source = ts.createSourceFile(FILE, lines.join('\n'), ts.ScriptTarget.ESNext, true)
  source.impliedNodeFormat = ts.ModuleKind.ESNext
  host.getSourceFile = (name, ...rest) => name === FILE ? source : read(name, ...rest)
  const found = ts.getPreEmitDiagnostics(ts.createProgram([FILE], OPTIONS, host))
  const mistakes: string[][] = manifests.map(() => [])
  for (const { start = 0, messageText } of found) {
    const { line } = source.getLineAndCharacterOfPosition(start)
    mistakes[line]?.push(ts.flattenDiagnosticMessageText(messageText, ' '))
  }
  return mistakes
}
