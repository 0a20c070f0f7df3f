import { performance } from 'node:perf_hooks'
import { Random } from '../../test/chaos/random.ts'
import { exactlyOnce } from './exactly-once.ts'
import { fanOut } from './fan-out.ts'
import { Ground } from './ground.ts'
import type { Verdict } from './judge.ts'
import { nats } from './nats.ts'
import { outbox } from './outbox.ts'
import { rabbitmq } from './rabbitmq.ts'
import { MODES } from './receiver.ts'
import type { Mode } from './receiver.ts'
import { Stage } from './stage.ts'

export interface Setting { readonly stage: Stage, readonly mode: Mode, readonly size: number, readonly random: Random }
export type Example = (setting: Setting) => Promise<Verdict>

interface Repertoire { readonly play: Example, readonly modes: readonly Mode[] }

export const EXAMPLES = {
  outbox: { play: outbox, modes: MODES },
  nats: { play: nats, modes: MODES },
  rabbitmq: { play: rabbitmq, modes: MODES },
  'exactly-once': { play: exactlyOnce, modes: ['forward'] },
  'fan-out': { play: fanOut, modes: ['forward'] }
} as const satisfies Readonly<Record<string, Repertoire>>
export type ExampleName = keyof typeof EXAMPLES

export interface Played extends Verdict { readonly name: ExampleName, readonly mode: Mode, readonly seconds: number }

/** Runs an example in each of its modes, one after another on the same servers. */
export async function * play (
  name: ExampleName,
  { sizes, seed }: { readonly sizes: Readonly<Partial<Record<Mode, number>>>, readonly seed: number }
): AsyncGenerator<Played> {
  const ground = new Ground()
  try {
    for (const mode of EXAMPLES[name].modes) {
      const size = sizes[mode]
      if (size !== undefined) yield await playOne(name, mode, ground, { size, seed })
    }
  } finally {
    await ground.clear()
  }
}

async function playOne (
  name: ExampleName,
  mode: Mode,
  ground: Ground,
  { size, seed }: { readonly size: number, readonly seed: number }
): Promise<Played> {
  const stage = new Stage(ground)
  const startedAt = performance.now()
  try {
    const verdict = await EXAMPLES[name].play({ stage, mode, size, random: new Random(seed) })
    return { ...verdict, name, mode, seconds: (performance.now() - startedAt) / 1000 }
  } finally {
    await stage.clear()
  }
}
