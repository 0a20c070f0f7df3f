/**
 * Settles the keys that replays will ask for, and asks for each once more, with a client that knows which answer belongs to
 * which request: wrk does not tell. After it the pool stands, and what comes back is known to be paired rightly.
 */
import { Pool } from 'undici'
import { answerTo, BODY, keyOf, PATH, STATUS, TOKEN } from './exchange.ts'

export interface PoolOptions {
  readonly url: string
  readonly series: string
  readonly keys: number
  readonly connections: number
}

/** All that was wrong, in words; empty: nothing. */
export async function settlePool (options: PoolOptions): Promise<string[]> {
  const first = await askAll(options)
  const again = await askAll(options)
  return [...first.map((what) => `while its pool was settled: ${what}`), ...again.map((what) => `at the first replay of its pool: ${what}`)]
}

async function askAll ({ url, series, keys, connections }: PoolOptions): Promise<string[]> {
  // The authority of a contestant behind TLS is the run's own.
  const client = new Pool(url, { connections, pipelining: 1, connect: { rejectUnauthorized: false } })
  const wrong: string[] = []
  let number = 0
  const ask = async (): Promise<void> => {
    while (number < keys) {
      const key = keyOf(series, ++number)
      const { statusCode, body } = await client.request({
        path: PATH,
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json', 'idempotency-key': key },
        body: BODY
      })
      const text = await body.text()
      if (statusCode !== STATUS) wrong.push(`${key} got ${statusCode}: ${text.slice(0, 200)}`)
      else if (text !== answerTo(key)) wrong.push(`${key} got an answer that is not its own: ${text.slice(0, 200)}`)
    }
  }
  try {
    await Promise.all(Array.from({ length: connections }, ask))
  } finally {
    await client.close()
  }
  return wrong
}
