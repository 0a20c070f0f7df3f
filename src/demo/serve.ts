/** The toy payments API as a process, for deploy/compose.yaml. Listens on PORT until SIGTERM or SIGINT. */
import { startDemoUpstream } from './upstream.ts'

const upstream = await startDemoUpstream({ port: Number(process.env['PORT'] ?? 3000), host: '0.0.0.0' })
console.log(`toy payments API on ${upstream.url}`)
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => { void upstream.stop() })
