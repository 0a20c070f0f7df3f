/** Counts of requests and of messages in the inbox, from the gateway's metrics. */
import type { ProcessGateway } from '../../test/harness/process-gateway.ts'

/** Requests that were not the first of their key: replayed, or answered as in flight. */
export async function duplicatesAt (gateway: ProcessGateway): Promise<number> {
  return await countAt(gateway, 'replayed') + await countAt(gateway, 'in-flight')
}

export async function countAt (gateway: ProcessGateway, outcome: string): Promise<number> {
  return sumAt(gateway, new RegExp(`^onceway_requests_total\\{[^}]*outcome="${outcome}"[^}]*\\} (\\d+)$`, 'gm'))
}

/** Messages in the inbox. The gateway counts them every second. */
export async function messagesAt (gateway: ProcessGateway, ...states: readonly string[]): Promise<number> {
  return sumAt(gateway, new RegExp(`^onceway_inbox_messages\\{[^}]*state="(?:${states.join('|')})"[^}]*\\} (\\d+)$`, 'gm'))
}

async function sumAt ({ adminUrl }: ProcessGateway, line: RegExp): Promise<number> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text()
  return Array.from(text.matchAll(line), ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0)
}
