import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Path } from '../../src/config/read/problem.ts'
import { rangeMistakes, rangeOf } from '../../src/config/ranges.ts'
import { ConfigSchema } from '../../src/config/schema.ts'
import type { SchemaNode } from '../../src/config/read/schema-words.ts'
import { DURATION_PATTERN, SIZE_PATTERN } from '../../src/config/read/units.ts'

function measures (node: SchemaNode, path: Path = []): Path[] {
  const inside = [
    ...(node.anyOf ?? []).map((branch) => [path, branch] as const),
    ...Object.entries({ ...node.properties, ...node.patternProperties }).map(([name, child]) => [[...path, name], child] as const),
    ...node.items === undefined ? [] : [[[...path, 0], node.items] as const]
  ]
  return [
    ...node.pattern === DURATION_PATTERN || node.pattern === SIZE_PATTERN ? [path] : [],
    ...inside.flatMap(([at, child]) => measures(child, at))
  ]
}

// `idleTimeout: 0s` turned undici's timer off, and a silent upstream kept its place for ever.
test('every duration and every size of the configuration has a range', () => {
  const all = measures(ConfigSchema as unknown as SchemaNode)
  assert.ok(all.length > 30, `${all.length} were found`)
  assert.deepEqual(all.filter((path) => rangeOf(path) === undefined).map((path) => path.join('.')), [])
})

test('an idle time-out that is none, or longer than a day, is refused', () => {
  for (const idleTimeout of ['0s', '999ms', '9000d']) {
    assert.deepEqual(
      rangeMistakes({ upstreams: { api: { url: 'http://127.0.0.1', idleTimeout } } }).map(({ path }) => path.join('.')),
      ['upstreams.api.idleTimeout'],
      idleTimeout
    )
  }
  assert.deepEqual(rangeMistakes({ upstreams: { api: { url: 'http://127.0.0.1', idleTimeout: '1s' } } }), [])
})
