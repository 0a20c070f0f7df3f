/** What the gateway has seen come in, by its own count. */
import type { ProcessGateway } from '../../test/harness/process-gateway.ts'

/** A request that was not the first of its key: answered from the record, or told that the first one still runs. */
const DUPLICATE = /^onceway_requests_total\{[^}]*outcome="(?:replayed|in-flight)"[^}]*\} (\d+)$/gm

export async function duplicatesAt ({ adminUrl }: ProcessGateway): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  return Array.from(text.matchAll(DUPLICATE), ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0)
}
