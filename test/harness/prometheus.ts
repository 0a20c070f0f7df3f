/** A real Prometheus for one test file: on a free port of 127.0.0.1, in a temporary directory, never a system's instance. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { findTool } from './binaries.ts'
import { makeDirectory } from './directory.ts'
import { eventually } from './eventually.ts'
import { freePort } from './ports.ts'
import { launch } from './process.ts'

export type Labels = Readonly<Record<string, string>>

/** Values without those that are not numbers, such as a quotient by 0. */
export interface Series { readonly labels: Labels, readonly values: readonly number[] }

export interface Alert { readonly name: string, readonly labels: Labels, readonly state: 'pending' | 'firing' }

export interface Prometheus {
  readonly url: string
  /** Replaces the gateways to read, each by its host and port. */
  readonly scrape: (targets: readonly string[]) => void
  /** A query over everything since Prometheus started, one value a second. */
  readonly range: (expr: string) => Promise<Series[]>
  readonly alerts: () => Promise<Alert[]>
  /** Values of a label, of the series that a selector matches. */
  readonly labelValues: (label: string, selector: string) => Promise<string[]>
  /** Waits until it has ended and removes its directory. */
  readonly stop: () => Promise<void>
}

export interface PrometheusOptions {
  readonly job: string
  /** The text of its rule file. */
  readonly rules: string
  readonly targets: readonly string[]
}

const START_MS_MAX = 30_000

/** Reads and evaluates once a second. It has rules when it has read each target once: before, all of them are absent. */
export async function startPrometheus ({ job, rules, targets }: PrometheusOptions): Promise<Prometheus> {
  const tool = findTool('prometheus')
  if (tool.kind !== 'binaries') throw new Error('there is no prometheus: say needs(\'prometheus\')')
  const directory = makeDirectory('prometheus')
  const [port, at] = [await freePort(), (name: string): string => join(directory.path, name)]
  const scrape = (those: readonly string[]): void => { writeFileSync(at('targets.json'), JSON.stringify([{ targets: those }])) }
  scrape(targets)
  writeFileSync(at('rules.yml'), '')
  // JSON is YAML.
  writeFileSync(at('prometheus.yml'), JSON.stringify({
    global: { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' },
    rule_files: ['rules.yml'],
    scrape_configs: [{ job_name: job, file_sd_configs: [{ files: ['targets.json'], refresh_interval: '1s' }] }]
  }))
  const running = launch({
    file: join(tool.directory, 'prometheus'),
    args: [
      `--config.file=${at('prometheus.yml')}`, `--storage.tsdb.path=${at('data')}`, `--web.listen-address=127.0.0.1:${port}`,
      '--web.enable-lifecycle', '--log.level=warn'
    ],
    directory: directory.path,
    log: at('log'),
    endSignal: 'SIGKILL'
  })
  const [url, startedAtMs] = [`http://127.0.0.1:${port}`, Date.now()]
  await eventually(
    async () => !running.running() || await fetch(`${url}/-/ready`).then(({ ok }) => ok, () => false),
    () => `Prometheus was not ready in time:\n${running.lastLog()}`,
    START_MS_MAX
  )
  if (!running.running()) throw new Error(`Prometheus ended while starting:\n${running.lastLog()}`)
  const asks = asking(url, startedAtMs)
  const up = async (): Promise<number> => (await asks.range('up == 1')).length
  await eventually(async () => await up() === targets.length, 'Prometheus reads the gateways', START_MS_MAX)
  writeFileSync(at('rules.yml'), rules)
  const { ok } = await fetch(`${url}/-/reload`, { method: 'POST' })
  if (!ok) throw new Error(`Prometheus does not take the rules:\n${running.lastLog()}`)
  return { url, scrape, ...asks, async stop () { await running.killAll(); directory.remove() } }
}

function asking (url: string, startedAtMs: number): Pick<Prometheus, 'range' | 'alerts' | 'labelValues'> {
  const ask = async (path: string, params: Readonly<Record<string, string>> = {}): Promise<unknown> => {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(params).toString()}`)
    const answer = await response.json() as { readonly status: string, readonly data: unknown, readonly error?: string }
    if (answer.status !== 'success') throw new Error(`Prometheus refuses ${path} ${JSON.stringify(params)}: ${answer.error}`)
    return answer.data
  }
  return {
    range: async (query) => {
      const times = { start: String(startedAtMs / 1000), end: String(Date.now() / 1000), step: '1' }
      const { result } = await ask('query_range', { query, ...times }) as {
        readonly result: ReadonlyArray<{ readonly metric: Labels, readonly values: ReadonlyArray<readonly [number, string]> }>
      }
      return result.map(({ metric, values }) => ({
        labels: metric,
        values: values.map(([, value]) => Number(value)).filter((value) => Number.isFinite(value))
      }))
    },
    alerts: async () => {
      const { alerts } = await ask('alerts') as { readonly alerts: ReadonlyArray<Omit<Alert, 'name'>> }
      return alerts.map(({ labels, state }) => ({ name: labels['alertname'] ?? '', labels, state }))
    },
    labelValues: async (label, selector) => await ask(`label/${label}/values`, { 'match[]': selector }) as string[]
  }
}
