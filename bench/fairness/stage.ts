/** One scenario's parts: a Postgres of its own, a gateway of the checkout that is measured, and the consumer. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Pool } from 'undici'
import { startPostgres } from '../../test/harness/postgres.ts'
import type { PostgresServer } from '../../test/harness/postgres.ts'
import { builtMain } from '../built.ts'
import { startNode } from '../child.ts'
import type { Child } from '../child.ts'
import { ACCEPTED, TOKEN } from '../exchange.ts'
import { startConsumer } from './consumer.ts'
import type { Consumer, Sent } from './consumer.ts'

export interface Stage {
  readonly consumer: Consumer
  readonly databaseUrl: string
  readonly gateways: readonly Child[]
  /** Accepts them in requests of several events. Throws if one was refused. */
  readonly accept: (messages: readonly Sent[]) => Promise<void>
  /** Accepts one, and returns when it was answered. */
  readonly acceptOne: (message: Sent) => Promise<number>
  readonly stop: () => Promise<void>
}

export interface StageOptions {
  /** null: this one. */
  readonly checkout: string | null
  /** The members of the `inbox` block, as YAML. */
  readonly inbox: readonly string[]
  readonly workMs: number
  readonly gateways?: number
}

/** Events of one request. */
const EVENTS = 500
const CONNECTIONS = 8
/** What a server has by default, where the harness of the tests has less. */
const MEMORY = { shared_buffers: '128MB', max_wal_size: '1GB' }

export async function startStage ({ checkout, inbox, workMs, gateways = 1 }: StageOptions): Promise<Stage> {
  const directory = mkdtempSync(join(tmpdir(), 'fairness-'))
  const started: Array<() => Promise<void> | void> = [() => { rmSync(directory, { recursive: true, force: true }) }]
  const stop = async (): Promise<void> => { for (const end of started.toReversed()) await end() }
  try {
    const consumer = await startConsumer()
    consumer.workMs = workMs
    started.push(consumer.stop)
    const postgres: PostgresServer = await startPostgres({ settings: MEMORY, below: tmpdir() })
    started.push(() => postgres.stop())
    const databaseUrl = await postgres.createDatabase('fairness')
    const file = join(directory, 'onceway.yaml')
    writeFileSync(file, configuration(databaseUrl, consumer.url, inbox))
    const command = builtMain(checkout ?? undefined)
    const children: Child[] = []
    for (let each = 0; each < gateways; each++) {
      const args = [...command, 'serve', '--config', file, '--data-dir', join(directory, String(each))]
      const child = await startNode(`gateway-${each}`, directory, args, {})
      started.push(() => child.stop())
      children.push(child)
    }
    const client = new Pool((children[0] as Child).url, { connections: CONNECTIONS })
    started.push(() => client.close())
    const send = async (messages: readonly Sent[]): Promise<void> => {
      const { statusCode, body } = await client.request({
        path: '/events',
        method: 'POST',
        headers: { authorization: `Bearer ${TOKEN}`, 'content-type': 'application/json' },
        body: JSON.stringify(messages)
      })
      const text = await body.text()
      if (statusCode !== ACCEPTED) throw new Error(`${statusCode} for ${messages.length} events: ${text}`)
    }
    return {
      consumer,
      databaseUrl,
      gateways: children,
      async accept (messages) {
        for (let at = 0; at < messages.length; at += EVENTS) await send(messages.slice(at, at + EVENTS))
      },
      async acceptOne (message) {
        await send([message])
        return performance.now()
      },
      stop
    }
  } catch (error) {
    await stop()
    throw error
  }
}

function configuration (databaseUrl: string, consumerUrl: string, inbox: readonly string[]): string {
  return [
    'version: 1',
    'listen: { host: 127.0.0.1, port: 0 }',
    'admin: { host: 127.0.0.1, port: 0 }',
    `stores: { postgres: { url: "${databaseUrl}" } }`,
    `upstreams: { consumer: { url: "${consumerUrl}" } }`,
    'routes:',
    '  - name: events',
    '    match: { path: /events, methods: [POST] }',
    '    upstream: consumer',
    '    idempotency:',
    '      mode: inbox',
    '      key: { from: "json:/id" }',
    `      inbox: { batch: split, ${inbox.join(', ')} }`,
    ''
  ].join('\n')
}
