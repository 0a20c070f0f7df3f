import { performance } from 'node:perf_hooks'
import { Random } from '../../test/chaos/random.ts'
import { exactlyOnce } from './exactly-once.ts'
import { fanOut } from './fan-out.ts'
import type { Verdict } from './judge.ts'
import { nats } from './nats.ts'
import { outbox } from './outbox.ts'
import { rabbitmq } from './rabbitmq.ts'
import { Stage } from './stage.ts'

export interface Setting { readonly stage: Stage, readonly size: number, readonly random: Random }
export type Example = (setting: Setting) => Promise<Verdict>

export const EXAMPLES = { outbox, nats, rabbitmq, 'exactly-once': exactlyOnce, 'fan-out': fanOut } as const satisfies Readonly<Record<string, Example>>
export type ExampleName = keyof typeof EXAMPLES

export interface Played extends Verdict { readonly name: ExampleName, readonly seconds: number }

export async function play (name: ExampleName, { size, seed }: { readonly size: number, readonly seed: number }): Promise<Played> {
  const stage = new Stage()
  const startedAt = performance.now()
  try {
    const verdict = await EXAMPLES[name]({ stage, size, random: new Random(seed) })
    return { ...verdict, name, seconds: (performance.now() - startedAt) / 1000 }
  } finally {
    await stage.clear()
  }
}
