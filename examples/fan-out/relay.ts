/**
 * Sends each line of EVENTS to every consumer, and stores its position in POSITION. The position moves when all consumers have the whole
 * batch. If the relay is killed before that, it sends the batch again to all.
 */
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'

const { GATEWAY_URL = 'http://127.0.0.1:8080', EVENTS = 'events.ndjson', POSITION = 'position' } = process.env
const CONSUMERS = ['billing', 'shipping']
const BATCH = 50
const AGAIN_MS = 200
const TIMEOUT_MS = 10_000

console.log('relay runs')
for (;;) {
  const position = existsSync(POSITION) ? Number(readFileSync(POSITION, 'utf8')) : 0
  const batch = readFileSync(EVENTS, 'utf8').split('\n').slice(0, -1).slice(position, position + BATCH)
  await Promise.all(batch.flatMap((event) => CONSUMERS.map(async (consumer) => deliver(event, consumer))))
  if (batch.length === 0) {
    await pause(AGAIN_MS)
    continue
  }
  // Renames a new file, so that the position is never half written.
  writeFileSync(`${POSITION}.new`, String(position + batch.length))
  renameSync(`${POSITION}.new`, POSITION)
}

async function deliver (event: string, consumer: string): Promise<void> {
  while (!await arrives(event, consumer)) await pause(AGAIN_MS)
}

async function arrives (event: string, consumer: string): Promise<boolean> {
  try {
    const answer = await fetch(`${GATEWAY_URL}/${consumer}/events`, {
      method: 'POST', headers: { 'Content-Type': 'application/json' }, body: event, signal: AbortSignal.timeout(TIMEOUT_MS)
    })
    await answer.text()
    return answer.ok
  } catch {
    return false
  }
}
