/**
 * Authorisation of a request with a key, the first and each retry. It runs before any answer, message or record is looked at.
 * A scope tells callers apart and permits nothing. Today the only check is the signature (`verify`).
 */
import type { IdempotencyPolicy } from '../../core/policy/policy.ts'
import { prefersAsync } from '../../core/headers/prefer.ts'
import type { RawHeaders } from '../../core/record/record.ts'
import { verifierOf, verifySignature } from '../../core/headers/signature.ts'
import type { IncomingRequest } from '../key/incoming-request.ts'
import type { Deps } from '../shared/deps.ts'
import { rejected } from '../shared/outcome.ts'
import type { Rejected } from '../shared/outcome.ts'

/** null: authorised. */
export function authorisationRefusal (
  { clock, meter }: { readonly clock: Pick<Deps['clock'], 'wallMs'>, readonly meter: Pick<Deps['meter'], 'signature'> },
  { route, rawHeaders }: Pick<IncomingRequest, 'route' | 'rawHeaders'>,
  body: Buffer
): Rejected | null {
  const verify = verifierOf(route.idempotency)
  if (verify === null) return null
  const verified = verifySignature(verify, rawHeaders, body, clock.wallMs())
  meter.signature(route.name, verified.kind === 'good' ? verified.secret : verified.why)
  return verified.kind === 'good' ? null : rejected('signature-invalid', `${verified.detail} ${nothingDone(route.idempotency, rawHeaders)}`)
}

function nothingDone ({ inbox, inboxFor }: IdempotencyPolicy, rawHeaders: RawHeaders): string {
  return inbox !== null && (inboxFor === 'all' || prefersAsync(rawHeaders)) ? 'Nothing was accepted.' : 'Nothing was executed.'
}
