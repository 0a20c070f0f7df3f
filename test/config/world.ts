/** A configuration in a directory of its own, gone after the test. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { load } from '../../src/config/load.ts'
import type { Flags, Loaded } from '../../src/config/load.ts'
import type { Environment } from '../../src/config/read/interpolate.ts'
import { ConfigInvalid } from '../../src/config/read/problem.ts'
import type { ConfigProblem } from '../../src/config/read/problem.ts'

export class ConfigWorld {
  readonly directory = mkdtempSync(join(tmpdir(), 'onceway-config-'))

  constructor (t: TestContext) {
    t.after(() => { rmSync(this.directory, { recursive: true, force: true }) })
  }

  write (name: string, text: string): string {
    const file = join(this.directory, name)
    writeFileSync(file, text)
    return file
  }

  load (text: string, env: Environment = {}, flags: Flags = {}): Loaded {
    return load(this.write('onceway.yaml', text), { env, flags })
  }

  /** The problems of a configuration that must not load. */
  problems (text: string, env: Environment = {}, flags: Flags = {}): readonly ConfigProblem[] {
    try {
      this.load(text, env, flags)
    } catch (error) {
      if (error instanceof ConfigInvalid) return error.problems
      throw error
    }
    throw new Error('it loaded')
  }

  /** `path: message` of each. */
  complaints (text: string, env: Environment = {}, flags: Flags = {}): string[] {
    return this.problems(text, env, flags).map(({ path, message }) => `${path}: ${message}`)
  }
}

/** The smallest file with one guarded route; `policy` is the flow map of its idempotency block, `rest` comes at the top. */
export function fileWith ({ policy = '{}', match = '{ path: /v1/charges }', rest = '' } = {}): string {
  return `version: 1
${rest}
upstreams: { payments: { url: "http://127.0.0.1:3000" } }
routes:
  - name: charges
    match: ${match}
    upstream: payments
    idempotency: ${policy}
`
}
