/** What the gateway has seen come in, by its own count. */
import type { ProcessGateway } from '../../test/harness/process-gateway.ts'

/** Requests that were not the first of their key: answered from the record, or told that the first one still runs. */
export async function duplicatesAt (gateway: ProcessGateway): Promise<number> {
  return await countAt(gateway, 'replayed') + await countAt(gateway, 'in-flight')
}

export async function countAt ({ adminUrl }: ProcessGateway, outcome: string): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  const counts = text.matchAll(/^onceway_requests_total\{[^}]*outcome="([^"]+)"[^}]*\} (\d+)$/gm)
  return Array.from(counts, ([, of, count]) => of === outcome ? Number(count) : 0).reduce((sum, count) => sum + count, 0)
}
