import assert from 'node:assert/strict'
import { test } from 'node:test'
import { prefersAsync, withoutAsync } from '../../../src/core/headers/prefer.ts'

const ASKS: ReadonlyArray<readonly [lines: readonly string[], asks: boolean]> = [
  [[], false],
  [['respond-async'], true],
  [['Respond-Async'], true],
  [['respond-async, wait=10'], true],
  [['wait=10,respond-async;foo="a,b"'], true],
  [['return=minimal', 'respond-async'], true],
  [['respond-async=""'], true],
  [['respond-async = ; x=1'], true],
  [['respond-async=no'], false],
  [['respond-asynchronously'], false],
  [['wait=10'], false],
  [['note="x, respond-async"'], false],
  [['note="x\\", respond-async'], false],
  [['note="x, respond-async'], false],
  [['foo; respond-async'], false],
  [[',, ,respond-async,'], true]
]

for (const [lines, asks] of ASKS) {
  test(`Prefer: ${lines.join(' | ')} ${asks ? 'asks for the inbox' : 'does not'}`, () => {
    assert.equal(prefersAsync(lines.flatMap((line) => ['pReFeR', line])), asks)
  })
}

test('what has been applied does not go on; every other preference does', () => {
  const rest = (line: string): readonly string[] => withoutAsync(['A', '1', 'Prefer', line, 'B', '2'])
  assert.deepEqual(rest('respond-async'), ['A', '1', 'B', '2'])
  assert.deepEqual(rest('Respond-Async; x=1, WAIT=10'), ['A', '1', 'B', '2'])
  assert.deepEqual(rest('return=representation; a="1,2", respond-async,handling=lenient'), [
    'A',
    '1',
    'Prefer',
    'return=representation; a="1,2", handling=lenient',
    'B',
    '2'
  ])
  assert.deepEqual(rest('return=minimal ,handling=strict'), ['A', '1', 'Prefer', 'return=minimal ,handling=strict', 'B', '2'])
})

test('a head full of quotes is read at once', { timeout: 5_000 }, () => {
  for (const line of ['"'.repeat(16_001), '"\\'.repeat(8_000), '\\"'.repeat(8_001), `respond-async${' '.repeat(16_000)}x`]) {
    assert.equal(prefersAsync(['Prefer', line]), false)
  }
})
