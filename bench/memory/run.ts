/** One run: requests, then waiters, for each kind of gateway; and what the upstream saw of all of it. */
import { Numbers } from '../growth/load.ts'
import { withServers } from '../growth/servers.ts'
import type { Stores } from '../growth/servers.ts'
import { wrongExecutions } from '../growth/upstream.ts'
import type { UpstreamCounts } from '../growth/upstream.ts'
import { measureRequests } from './requests.ts'
import type { RequestsOptions, RequestsResult } from './requests.ts'
import { measureWaiting } from './waiting.ts'
import type { WaitingOptions, WaitingResult } from './waiting.ts'

export interface MemoryOptions {
  readonly stores: readonly Stores[]
  readonly requests: Omit<RequestsOptions, 'say'> | null
  readonly waiting: Omit<WaitingOptions, 'say'> | null
  /** Of Postgres; absent: as in production. */
  readonly settings?: Readonly<Record<string, string>>
  readonly say: (text: string) => void
}

export interface MemoryResult {
  readonly requests: readonly RequestsResult[]
  readonly waiting: readonly WaitingResult[]
  readonly upstream: UpstreamCounts
  readonly flat: boolean
  readonly wrongCount: number
  readonly wrong: readonly string[]
}

export async function runMemory ({ stores, requests, waiting, settings, say }: MemoryOptions): Promise<MemoryResult> {
  return withServers(async (servers) => {
    const numbers = new Numbers()
    const asked: RequestsResult[] = []
    const waited: WaitingResult[] = []
    for (const each of stores) {
      if (requests !== null) asked.push(await measureRequests(servers, numbers, each, { ...requests, say }))
      if (waiting !== null) waited.push(await measureWaiting(servers, numbers, each, { ...waiting, say }))
    }
    const upstream = await servers.upstream.ask('count')
    const executions = wrongExecutions(upstream)
    const parts = [...asked, ...waited]
    return {
      requests: asked,
      waiting: waited,
      upstream,
      flat: asked.every(({ rss, heap }) => rss.flat && heap.flat) && waited.every(({ back }) => back),
      wrongCount: executions.length + parts.reduce((sum, { wrongCount }) => sum + wrongCount, 0),
      wrong: [...executions, ...parts.flatMap(({ wrong }) => wrong)]
    }
  }, settings)
}
