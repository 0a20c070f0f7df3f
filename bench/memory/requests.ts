/** First requests by the hundred thousand through one gateway: is its memory flat? */
import { Client } from '../growth/load.ts'
import type { Numbers } from '../growth/load.ts'
import { withGateway } from '../growth/servers.ts'
import type { Servers, Stores } from '../growth/servers.ts'
import { keyOf } from '../growth/thing.ts'
import { median } from '../../test/soak/verdict.ts'
import { MemoryWatch } from './memory.ts'
import type { Memory } from './memory.ts'

export interface RequestsOptions {
  readonly requests: number
  readonly samples: number
  readonly concurrency: number
  readonly say: (text: string) => void
}

export interface Sample extends Memory { readonly requests: number }

export interface Flatness {
  /** Medians of the middle and of the last third. */
  readonly middle: number
  readonly last: number
  readonly allowed: number
  readonly flat: boolean
}

export interface RequestsResult {
  readonly stores: Stores
  readonly requests: number
  readonly perSecond: number
  readonly samples: readonly Sample[]
  readonly rss: Flatness
  readonly heap: Flatness
  readonly wrongCount: number
  readonly wrong: readonly string[]
}

/** A third of them must be more than one or two. */
const SAMPLES_MIN = 9
/**
 * What the last third may stand above the middle one. RSS moves by some percent with every major collection, a heap's
 * lowest points by a few MiB; what leaks a hundred bytes a request is 33 MiB further on after a third of a million.
 */
const SHARE = 0.05
const ABSOLUTE: Readonly<Record<'rss' | 'heap', number>> = { rss: 8 * 1024 * 1024, heap: 4 * 1024 * 1024 }

export async function measureRequests (
  servers: Servers,
  numbers: Numbers,
  stores: Stores,
  options: RequestsOptions
): Promise<RequestsResult> {
  const { requests, samples, concurrency, say } = options
  const database = stores === 'embedded' ? null : await servers.postgres.createDatabase('memory')
  return withGateway(servers, { stores, database }, async (gateway) => {
    const client = new Client(gateway.url, concurrency)
    const watch = new MemoryWatch(gateway).start()
    try {
      const taken: Sample[] = []
      const began = performance.now()
      for (let part = 1; part <= samples; part++) {
        const until = Math.round(requests * part / samples)
        await askSo(client, numbers, concurrency, until - (taken.at(-1)?.requests ?? 0))
        const sample = { requests: until, ...await watch.take() }
        taken.push(sample)
        say(`${stores}: ${until} requests, ${mib(sample.rss)} MiB, heap ${mib(sample.heap)} MiB`)
      }
      const perSecond = requests / (performance.now() - began) * 1_000
      return {
        stores,
        requests,
        perSecond,
        samples: taken,
        rss: flatness(taken, 'rss'),
        heap: flatness(taken, 'heap'),
        wrongCount: client.wrongCount,
        wrong: client.wrong
      }
    } finally {
      await watch.stop()
      await client.close()
    }
  })
}

async function askSo (client: Client, numbers: Numbers, concurrency: number, count: number): Promise<void> {
  let left = count
  const one = async (): Promise<void> => {
    while (left-- > 0) await client.ask({ key: keyOf('made', numbers.take()), expected: 'executed' })
  }
  await Promise.all(Array.from({ length: concurrency }, one))
}

/** The first third is not asked: caches fill, code is compiled, pools grow. */
export function flatness (samples: ReadonlyArray<Pick<Memory, 'rss' | 'heap'>>, of: 'rss' | 'heap'): Flatness {
  if (samples.length < SAMPLES_MIN) throw new RangeError(`${samples.length} samples are too few to judge: at least ${SAMPLES_MIN}`)
  const third = Math.floor(samples.length / 3)
  const values = samples.map((sample) => sample[of])
  const [middle, last] = [median(values.slice(-2 * third, -third)), median(values.slice(-third))]
  const allowed = middle * SHARE + ABSOLUTE[of]
  return { middle, last, allowed, flat: last - middle <= allowed }
}

function mib (bytes: number): string { return (bytes / 1024 / 1024).toFixed(1) }
