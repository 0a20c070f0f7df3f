/**
 * Ten thousand clients that wait for a hundred keys: the upstream holds, every client but the first of its key joins that
 * execution, all of them get its answer, and afterwards the memory is there again. In waves: what one wave keeps, the
 * next one shows.
 */
import { readFileSync } from 'node:fs'
import { metricsOf, totalOf } from '../../test/e2e/metrics.ts'
import { eventually } from '../../test/harness/eventually.ts'
import { Client, closedLoop } from '../growth/load.ts'
import type { Expected, Numbers } from '../growth/load.ts'
import { withGateway } from '../growth/servers.ts'
import type { Servers, Stores } from '../growth/servers.ts'
import { keyOf } from '../growth/thing.ts'
import { MemoryWatch, pause } from './memory.ts'
import type { Memory } from './memory.ts'

export interface WaitingOptions {
  readonly waiting: number
  readonly keys: number
  readonly waves: number
  /** Of a wave that waits, and after it, until memory is looked at. */
  readonly restMs: number
  readonly say: (text: string) => void
}

export interface Wave {
  readonly waiting: Memory
  readonly after: Memory
  /** From the release to the last answer. */
  readonly answeredMs: number
}

export interface WaitingResult {
  readonly stores: Stores
  readonly waiting: number
  readonly keys: number
  readonly before: Memory
  readonly waves: readonly Wave[]
  /** Bytes each; what the kernel keeps for a socket is in neither. */
  readonly perWaiter: {
    /** The first wave over before: what the process has to get from the system, room that garbage left it excepted. */
    readonly rss: number
    /** Heap and buffers: the lowest of all waves while they wait over the lowest after. */
    readonly heap: number
  }
  /** The later half of the waves neither needs nor keeps more than the first half. */
  readonly back: boolean
  readonly wrongCount: number
  readonly wrong: readonly string[]
}

/** Beside the clients' sockets: the upstream's, the stores', files. */
const FILES_BESIDE = 512
/** Ten thousand connections and the claims of a hundred keys take seconds, on a busy machine many. */
const GATHERED_WITHIN_MS = 120_000
/** New connections at once: what a listen backlog holds. */
const GROUP = 250
/** Requests at once between two waves. */
const ORDINARY = 8
/** As long as this many rests: the heap grows to what requests alone need, which is not the waiters'. */
const WARM_UP_RESTS = 3
/** What the later half may stand above the first one: a heap that is filled and collected is never twice the same. */
const SHARE = 0.1
const ABSOLUTE = 16 * 1024 * 1024

export async function measureWaiting (servers: Servers, numbers: Numbers, stores: Stores, options: WaitingOptions): Promise<WaitingResult> {
  const { waiting, keys, waves, say } = options
  refuseTooFewFiles(waiting)
  const database = stores === 'embedded' ? null : await servers.postgres.createDatabase('waiting')
  // Answers kept in memory would fill it from wave to wave, up to their own limit.
  const choice = {
    stores,
    database,
    limits: `share: 1, recentBytes: 1MiB, waiters: ${waiting}, connections: ${waiting + FILES_BESIDE}`,
    idempotency: 'inFlight: { wait: 10m }, answerWithin: 10m'
  }
  return withGateway(servers, choice, async (gateway) => {
    const watch = new MemoryWatch(gateway).start()
    const wrong: string[] = []
    let wrongCount = 0
    try {
      await ordinaryLoad(gateway.url, numbers, WARM_UP_RESTS * options.restMs)
      await watch.take()
      const before = await watch.take()
      const taken: Wave[] = []
      for (let wave = 0; wave < waves; wave++) {
        const client = new Client(gateway.url, waiting)
        const waited = await oneWave(servers, numbers, gateway.adminUrl, client, watch, options)
        await ordinaryLoad(gateway.url, numbers, options.restMs)
        taken.push({ ...waited, after: await watch.take() })
        wrongCount += client.wrongCount
        wrong.push(...client.wrong)
        say(`${stores}, wave ${wave + 1}: ${mib(taken.at(-1)?.waiting.rss)} MiB while they wait, ${mib(taken.at(-1)?.after.rss)} MiB after, ${wrongCount} wrong`)
      }
      return {
        stores,
        waiting,
        keys,
        before,
        waves: taken,
        perWaiter: perWaiter(before, taken, waiting),
        back: isBack(taken),
        wrongCount,
        wrong
      }
    } finally {
      await watch.stop()
    }
  })
}

/** A process with nothing to do collects nothing: what was there is seen to be gone once requests go on. */
async function ordinaryLoad (url: string, numbers: Numbers, ms: number): Promise<void> {
  const client = new Client(url, ORDINARY)
  await closedLoop(client, ORDINARY, ms, () => ({ key: keyOf('made', numbers.take()), expected: 'executed' }))
  await client.close()
  if (client.wrongCount > 0) throw new Error(`after a wave: ${client.wrong.join()}`)
}

async function oneWave (
  { upstream }: Servers,
  numbers: Numbers,
  adminUrl: string,
  client: Client,
  watch: MemoryWatch,
  { waiting, keys, restMs }: WaitingOptions
): Promise<Omit<Wave, 'after'>> {
  await upstream.ask('hold')
  const names = Array.from({ length: keys }, () => keyOf('made', numbers.take()))
  const answers: Array<Promise<number>> = []
  const ask = (expected: Expected, index: number): void => { answers.push(client.ask({ key: names[index % keys] as string, expected })) }
  names.forEach((_, index) => { ask('executed', index) })
  await eventually(async () => (await upstream.ask('count')).held === keys, 'every key is executed and held', GATHERED_WITHIN_MS)
  const waiters = async (): Promise<number> => totalOf(await metricsOf(adminUrl), 'onceway_waiters')
  for (let asked = keys; asked < waiting; asked += GROUP) {
    const until = Math.min(waiting, asked + GROUP)
    for (let index = asked; index < until; index++) ask('replayed', index)
    await eventually(
      async () => await waiters() === until - keys,
      () => `not all of ${until} clients wait: ${client.wrong.join()}`,
      GATHERED_WITHIN_MS
    )
  }
  await watch.take()
  await pause(restMs)
  const held = await watch.take()
  const released = performance.now()
  await upstream.ask('release')
  await Promise.all(answers)
  const answeredMs = performance.now() - released
  await client.close()
  await watch.take()
  return { waiting: held, answeredMs }
}

function perWaiter (before: Memory, waves: readonly Wave[], waiting: number): WaitingResult['perWaiter'] {
  const held = ({ heap, external }: Memory): number => heap + external
  const taken = Math.min(...waves.map((wave) => held(wave.waiting))) - Math.min(...waves.map((wave) => held(wave.after)))
  return { rss: ((waves[0]?.waiting.rss ?? before.rss) - before.rss) / waiting, heap: taken / waiting }
}

/** Not every wave is followed by a collection of everything: the lowest heap of several waves is what is really held. */
export function isBack (waves: ReadonlyArray<Pick<Wave, 'waiting' | 'after'>>): boolean {
  const half = Math.ceil(waves.length / 2)
  const [first, last] = [waves.slice(0, half), waves.slice(-half)]
  const within = (now: number, then: number): boolean => now - then <= then * SHARE + ABSOLUTE
  const needed = (part: typeof waves): number => Math.max(...part.map(({ waiting }) => waiting.rss))
  const kept = (part: typeof waves): number => Math.min(...part.map(({ after }) => after.heap))
  return within(needed(last), needed(first)) && within(kept(last), kept(first))
}

/** Node raises its own limit to the hard one; above that nothing helps but the shell. */
function refuseTooFewFiles (waiting: number): void {
  const [, hard] = /^Max open files\s+\S+\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'latin1')) ?? []
  if (hard === undefined || hard === 'unlimited' || Number(hard) >= waiting + FILES_BESIDE) return
  throw new Error(`${waiting} clients need ${waiting + FILES_BESIDE} open files in one process, and ulimit -Hn allows ${hard}`)
}

function mib (bytes = 0): string { return (bytes / 1024 / 1024).toFixed(1) }
