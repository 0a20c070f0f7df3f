/** A gateway in this process in front of a scripted payments API, for tests with clients that people really use. */
import type { TestContext } from 'node:test'
import type { IdempotencyPolicy } from '../../src/core/policy/policy.ts'
import { guardedRoute, startGateway } from '../harness/gateway.ts'
import type { TestGateway } from '../harness/gateway.ts'
import { CREATED, startWitness } from '../harness/witness.ts'
import type { Behaviour, Witness } from '../harness/witness.ts'

export interface ClientWorld { readonly witness: Witness, readonly gateway: TestGateway, readonly host: string, readonly port: number }

export async function clientWorld (
  t: TestContext,
  policy: Partial<IdempotencyPolicy> = {},
  answer: Behaviour = CREATED
): Promise<ClientWorld> {
  const witness = await startWitness(answer)
  t.after(() => witness.close())
  const gateway = await startGateway(t, { routes: [guardedRoute(witness.url, policy)] })
  const { hostname, port } = new URL(gateway.url)
  return { witness, gateway, host: hostname, port: Number(port) }
}

/** The first request reaches the upstream and its connection is reset before an answer: the client does not know. */
export const RESET_AFTER_READING: Behaviour = (_seen, _response, socket) => { socket.resetAndDestroy() }
