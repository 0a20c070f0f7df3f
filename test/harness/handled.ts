/** A guarded request by promises: its body is a promise, and so is its outcome. */
import type { BodyResult } from '../../src/gateway/body/read-whole.ts'
import type { IncomingRequest } from '../../src/gateway/key/incoming-request.ts'
import type { Outcome } from '../../src/gateway/shared/outcome.ts'

export interface HandedRequest extends Omit<IncomingRequest, 'readBody' | 'answer'> {
  readonly readBody: (bytesMax: number, budget: { reserve: (bytes: number) => boolean }) => Promise<BodyResult>
}

export async function handle (gateway: { readonly begin: (incoming: IncomingRequest) => void }, request: HandedRequest): Promise<Outcome> {
  return new Promise((resolve, reject) => {
    gateway.begin({
      ...request,
      readBody: (bytesMax, budget, reader) => {
        request.readBody(bytesMax, budget).then((result) => { reader.bodyRead(result) }, reject)
      },
      answer: resolve
    })
  })
}
