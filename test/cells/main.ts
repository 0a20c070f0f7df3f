/**
 * `npm run cells -- [--by key|tenant|host]` starts two whole cells behind nginx and HAProxy, and ends them at Ctrl-C.
 * `npm run cells -- split --rate 40 --seconds 20 [--report docs/reports/split.md]` splits one of them under load, and judges it.
 */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { RoutedBy } from '../../src/core/cells/cells.ts'
import { startDemoUpstream } from '../../src/demo/upstream.ts'
import { reportOf } from './report.ts'
import { runSplit } from './split.ts'
import { World } from './world.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    by: { type: 'string', default: 'key' },
    upstream: { type: 'string' },
    rate: { type: 'string', default: '40' },
    seconds: { type: 'string', default: '20' },
    report: { type: 'string' }
  }
})
const ends: Array<() => Promise<void>> = []
const ending = { after: (end: () => Promise<void>): void => { ends.push(end) } }

if (positionals[0] === 'split') await splitTwice(Number(values.rate), Number(values.seconds))
else await run(values.by as RoutedBy)

/** Ctrl-C ends this process, and the harness ends with it all that it has started. */
async function run (by: RoutedBy): Promise<void> {
  if (!['key', 'tenant', 'host'].includes(by)) throw new Error('--by is key, tenant or host')
  const upstream = values.upstream ?? (await startDemoUpstream()).url
  const world = new World(ending, { by, upstream, gatewaysPerCell: 2 })
  await world.start()
  console.log(`Two cells, chosen by ${by}. Both send to ${upstream}.\n`)
  for (const { name, gateways, pair, redis } of world.cells) {
    console.log(`cell ${name}`)
    for (const { url, adminUrl } of gateways) console.log(`  gateway   ${url}  (admin: ${adminUrl})`)
    console.log(`  Postgres  127.0.0.1:${pair.primary().port}, its synchronous standby 127.0.0.1:${pair.standby()?.port}`)
    console.log(`  Redis     ${redis.url}`)
  }
  console.log('\nproxies')
  for (const { name, port } of world.proxies) console.log(`  ${name.padEnd(8)}  http://127.0.0.1:${port}  (cells: ${world.fileOf(name)})`)
  const { port = 0 } = world.proxies[0] ?? {}
  const header = { key: '', tenant: '-H \'X-Tenant: acme\' ', host: '-H \'Host: acme.example.com\' ' }[by]
  console.log(`
  curl -i ${header}-H 'Idempotency-Key: order-1' --json '{"amount": 100, "currency": "EUR"}' http://127.0.0.1:${port}/v1/payments
  npm run --silent onceway -- cell-of --config ${world.fileOf('nginx')} ${{ key: 'order-1', tenant: 'acme', host: 'acme.example.com' }[by]}

Ctrl-C ends all of it.`)
  // Nothing else keeps the process alive.
  setInterval(() => {}, 60_000)
}

async function splitTwice (rate: number, seconds: number): Promise<void> {
  const results = []
  for (const kill of [false, true]) {
    results.push({ kill, result: await runSplit(ending, { keysPerSecond: rate, secondsAround: seconds, gatewaysPerCell: 2, kill }) })
    for (const end of ends.splice(0).reverse()) await end()
  }
  const report = reportOf(`npm run cells -- split --rate ${rate} --seconds ${seconds}`, results)
  if (values.report === undefined) console.log(report)
  else writeFileSync(values.report, report)
  process.exit(results.every(({ result }) => result.violations.length === 0) ? 0 : 1)
}
