/**
 * A break is proof only if its build runs. A name that is not there (after a rename) ends the build with a TypeError, and every test
 * "fails" on it. So each broken source is compiled, and may name nothing that does not exist.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { BREAKS } from './breaks.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

/** TypeScript: no such name, no such property, no such export, with and without a suggestion. Other errors of types run. */
const MISSING: readonly number[] = [2304, 2305, 2339, 2551, 2552, 2724]

test('a broken build names nothing that is not there', () => {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), ts.sys.readFile) as { config: unknown }
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, ROOT)
  const broken = new Map<string, string>()
  const versions = new Map<string, number>()
  const service = ts.createLanguageService({
    getScriptFileNames: () => fileNames,
    getScriptVersion: (file) => String(versions.get(file) ?? 0),
    getScriptSnapshot: (file) => ts.sys.fileExists(file)
      ? ts.ScriptSnapshot.fromString(broken.get(file) ?? readFileSync(file, 'utf8'))
      : undefined,
    getCurrentDirectory: () => ROOT,
    getCompilationSettings: () => options,
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile
  })
  const errorsOf = (name: string, texts: ReadonlyMap<string, string>): string[] => {
    for (const [file, text] of texts) {
      broken.set(file, text)
      versions.set(file, (versions.get(file) ?? 0) + 1)
    }
    const found = Array.from(texts.keys()).flatMap((file) => [
      ...service.getSyntacticDiagnostics(file),
      ...service.getSemanticDiagnostics(file).filter(({ code }) => MISSING.includes(code))
    ])
    for (const file of texts.keys()) {
      broken.delete(file)
      versions.set(file, (versions.get(file) ?? 0) + 1)
    }
    return found.map(({ messageText }) => `${name}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`)
  }
  const [file] = fileNames.filter((each) => each.endsWith('src/gateway/way.ts')) as [string]
  assert.deepEqual(errorsOf('a rename', new Map([[file, 'nowhere()']])), ["a rename: Cannot find name 'nowhere'."])
  const wrong = BREAKS.flatMap(({ name, patches }) => {
    const texts = new Map<string, string>()
    for (const patch of patches) {
      const at = join(ROOT, 'src', patch.file)
      texts.set(at, (texts.get(at) ?? readFileSync(at, 'utf8')).replace(patch.find, () => patch.replace))
    }
    return errorsOf(name, texts)
  })
  assert.deepEqual(wrong, [])
})
