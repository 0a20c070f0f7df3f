/** One run: the parts that were asked for, one after another, on servers of their own; and what the upstream saw of all of it. */
import { measureChurn } from './churn.ts'
import type { ChurnOptions, ChurnResult } from './churn.ts'
import { Numbers } from './load.ts'
import { SETTINGS, withServers } from './servers.ts'
import { measureSizes } from './sizes.ts'
import type { SizesOptions, SizesResult } from './sizes.ts'
import { measureSweep } from './sweep.ts'
import type { SweepOptions, SweepResult } from './sweep.ts'
import { wrongExecutions } from './upstream.ts'
import type { UpstreamCounts } from './upstream.ts'
import { measureVariants } from './variants.ts'
import type { VariantsOptions, VariantsResult } from './variants.ts'

type Quiet<Options> = Omit<Options, 'say'>

/** null: not asked for. */
export interface GrowthOptions {
  readonly sizes: Quiet<SizesOptions> | null
  readonly sweeps: ReadonlyArray<Quiet<SweepOptions>>
  readonly churn: Quiet<ChurnOptions> | null
  readonly variants: Quiet<VariantsOptions> | null
  /** Of Postgres. */
  readonly settings?: Readonly<Record<string, string>>
  readonly say: (text: string) => void
}

export interface GrowthResult {
  readonly settings: Readonly<Record<string, string>>
  readonly sizes: SizesResult | null
  readonly sweeps: readonly SweepResult[]
  readonly churn: readonly ChurnResult[]
  readonly variants: VariantsResult | null
  readonly upstream: UpstreamCounts
  readonly wrongCount: number
  readonly wrong: readonly string[]
}

export async function runGrowth (options: GrowthOptions): Promise<GrowthResult> {
  const { say, settings = SETTINGS } = options
  return withServers(async (servers) => {
    // No part asks a key that another one has asked, but every part has databases of its own.
    const numbers = new Numbers()
    const sizes = options.sizes === null ? null : await measureSizes(servers, numbers, { ...options.sizes, say })
    const sweeps: SweepResult[] = []
    for (const sweep of options.sweeps) sweeps.push(await measureSweep(servers, numbers, { ...sweep, say }))
    const churn = options.churn === null ? [] : await measureChurn(servers, numbers, { ...options.churn, say })
    const variants = options.variants === null ? null : await measureVariants(servers, { ...options.variants, say })
    const upstream = await servers.upstream.ask('count')
    const executions = wrongExecutions(upstream)
    const parts = [sizes, ...sweeps].filter((part) => part !== null)
    return {
      settings,
      sizes,
      sweeps,
      churn,
      variants,
      upstream,
      wrongCount: executions.length + parts.reduce((sum, { wrongCount }) => sum + wrongCount, 0),
      wrong: [...executions, ...parts.flatMap(({ wrong }) => wrong)]
    }
  }, settings)
}
