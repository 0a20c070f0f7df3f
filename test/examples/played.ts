/** An example at a tenth of its size, judged; what runs in the inbox's mode too, at a third of that. */
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { play } from '../../examples/run/example.ts'
import type { ExampleName } from '../../examples/run/example.ts'
import { isRight } from '../../examples/run/judge.ts'
import { printed } from '../../examples/run/report.ts'

const SIZES = { forward: 1_000, inbox: 300 } as const
const SEED = 1

export async function playedRight (t: TestContext, name: ExampleName): Promise<void> {
  for await (const played of play(name, { sizes: SIZES, seed: SEED })) {
    await t.test(`mode ${played.mode}`, () => {
      t.diagnostic(printed(played))
      assert.ok(isRight(played), printed(played))
      assert.equal(played.messages, SIZES[played.mode])
    })
  }
}
