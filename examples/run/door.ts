/** What the gateway has seen come in, and what waits in its inbox, by its own count. */
import type { ProcessGateway } from '../../test/harness/process-gateway.ts'

/** Requests that were not the first of their key: answered from the record, or told that the first one still runs. */
export async function duplicatesAt (gateway: ProcessGateway): Promise<number> {
  return await countAt(gateway, 'replayed') + await countAt(gateway, 'in-flight')
}

export async function countAt (gateway: ProcessGateway, outcome: string): Promise<number> {
  return sumAt(gateway, new RegExp(`^onceway_requests_total\\{[^}]*outcome="${outcome}"[^}]*\\} (\\d+)$`, 'gm'))
}

/** In its inbox, as of a second ago. */
export async function messagesAt (gateway: ProcessGateway, ...states: readonly string[]): Promise<number> {
  return sumAt(gateway, new RegExp(`^onceway_inbox_messages\\{[^}]*state="(?:${states.join('|')})"[^}]*\\} (\\d+)$`, 'gm'))
}

async function sumAt ({ adminUrl }: ProcessGateway, line: RegExp): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  return Array.from(text.matchAll(line), ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0)
}
