/** The toy payments API as a process of its own, for deploy/compose.yaml: listens on PORT until it is told to stop. */
import { startDemoUpstream } from './upstream.ts'

const upstream = await startDemoUpstream({ port: Number(process.env['PORT'] ?? 3000), host: '0.0.0.0' })
console.log(`toy payments API on ${upstream.url}`)
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => { void upstream.stop() })
