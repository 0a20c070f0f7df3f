/** What a gateway's /metrics say, by name. Reads the text exposition; knows nothing of what a metric means. */
import { call } from '../harness/call.ts'

/** By name, the values of all its series; and by name with labels, as it is written, the one value. */
export type Metrics = ReadonlyMap<string, readonly number[]>

export async function metricsOf (adminUrl: string): Promise<Metrics> {
  const { status, text } = await call(adminUrl, '/metrics', { method: 'GET' })
  if (status !== 200) throw new Error(`/metrics answered ${status}`)
  return parseMetrics(text)
}

export function parseMetrics (text: string): Metrics {
  const found = new Map<string, number[]>()
  for (const line of text.split('\n')) {
    const [, name, labels, value] = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)$/.exec(line) ?? []
    if (name === undefined || value === undefined) continue
    found.set(name, [...found.get(name) ?? [], Number(value)])
    if (labels !== undefined) found.set(`${name}${labels}`, [Number(value)])
  }
  return found
}

/** Over all labels; what was never counted is 0. */
export function totalOf (metrics: Metrics, name: string): number {
  return (metrics.get(name) ?? []).reduce((sum, value) => sum + value, 0)
}
