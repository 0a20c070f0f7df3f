/** A gateway process at its defaults, in front of the API of the matrix. */
import type { TestContext } from 'node:test'
import { startProcess } from '../../harness/process-gateway.ts'
import type { ProcessGateway } from '../../harness/process-gateway.ts'
import type { Upstream } from './upstream.ts'

interface More { readonly config?: string, readonly args?: readonly string[] }

/** `idempotency: {}`: what everybody gets who says nothing. */
export async function startDefault (
  t: Pick<TestContext, 'after'>,
  { witness }: Upstream,
  { config = '', args = [] }: More = {}
): Promise<ProcessGateway> {
  return startProcess(t, {
    args,
    config: `
version: 1
listen: { host: 127.0.0.1, port: 0 }
admin: { host: 127.0.0.1, port: 0 }
${config}
upstreams: { api: { url: "${witness.url}" } }
routes:
  - name: orders
    match: { path: "/*", methods: [POST] }
    upstream: api
    idempotency: {}
`
  })
}

export const portOf = (url: string): number => Number(new URL(url).port)
