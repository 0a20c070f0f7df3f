/** An example at a tenth of its size, judged. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { play } from '../../examples/run/example.ts'
import type { ExampleName } from '../../examples/run/example.ts'
import { isRight } from '../../examples/run/judge.ts'
import { printed } from '../../examples/run/report.ts'

const SIZE = 1_000
const SEED = 1

export async function playedRight (t: TestContext, name: ExampleName): Promise<void> {
  const played = await play(name, { size: SIZE, seed: SEED })
  t.diagnostic(printed(played))
  assert.ok(isRight(played), printed(played))
  assert.equal(played.messages, SIZE)
}
