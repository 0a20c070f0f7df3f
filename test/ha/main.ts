/**
 * `npm run ha`: starts everything of deploy/ha on loopback from Debian's packages, prints where it is, and ends it at Ctrl-C.
 * docs/guides/deploy-for-high-availability.md explains it.
 */
import { startHa } from './world.ts'
import type { HaWorld } from './world.ts'

const HEADERS = ['Authorization: Bearer me', 'Content-Type: application/json', 'Idempotency-Key: order-1']
const PAY = `curl -i URL/v1/payments ${HEADERS.map((header) => `-H '${header}'`).join(' ')} -d '{"amount": 100}'`

console.log('starting etcd, Postgres under Patroni, HAProxy, PgBouncer, Redis with sentinels, and three gateways …')
const world = await startHa()
console.log(placesOf(world).join('\n'))

// The harness would end at once, and leave nobody the time to stop.
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.removeAllListeners(signal)
  process.once(signal, () => { void end() })
}
const alive = setInterval(() => {}, 60_000)

async function end (): Promise<void> {
  clearInterval(alive)
  console.log('ending everything …')
  await world.stop()
  process.exit(0)
}

function placesOf ({ cluster, gateways, sentinels, upstream }: HaWorld): string[] {
  const file = cluster.nodes[0]?.file ?? ''
  return [
    '',
    ...gateways.map(({ url, adminUrl }, index) => `gateway ${index + 1}      ${url}  (admin and console: ${adminUrl}/)`),
    ...cluster.nodes.map(({ name, restUrl, url }) => `postgres ${name}     ${url}  (Patroni: ${restUrl})`),
    `primary        ${cluster.url}  (through HAProxy)`,
    `pooled         ${cluster.pooledUrl}  (through PgBouncer and HAProxy)`,
    `HAProxy stats  http://127.0.0.1:${cluster.statsPort}/`,
    `etcd           ${cluster.etcd.map(({ port }) => `http://127.0.0.1:${port}`).join(' ')}`,
    `sentinels      ${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(' ')}`,
    `upstream       ${upstream.url}  (a toy)`,
    `logs, files    ${cluster.directory.path}`,
    '',
    `  patronictl -c ${file} list`,
    `  patronictl -c ${file} switchover --force`,
    '',
    'The same payment at two gateways is made once:',
    '',
    ...gateways.slice(0, 2).map(({ url }) => `  ${PAY.replace('URL', url)}`),
    '',
    'Ctrl-C ends everything.'
  ]
}
