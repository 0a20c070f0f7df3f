/** Operators who ask the API of a real gateway, and clients who retry at it meanwhile. */
import assert from 'node:assert/strict'
import { call } from '../harness/call.ts'
import type { Called } from '../harness/call.ts'
import type { ProcessGateway } from '../harness/process-gateway.ts'

export interface Row { readonly id: string, readonly owner: string, readonly attempt: number, readonly key: string }

type Body = Record<string, unknown>

/** The operator API of a gateway, for one who has signed in. */
export class Desk {
  readonly #url: string
  readonly #token: string

  constructor ({ adminUrl }: ProcessGateway, token: string) {
    this.#url = adminUrl
    this.#token = token
  }

  async get (path: string): Promise<Body> { return answered(path, await this.#ask(path)) }

  async post (path: string, body: object): Promise<Body> { return answered(path, await this.try(path, body)) }

  /** Whatever the answer is. */
  async try (path: string, body: object): Promise<{ readonly status: number, readonly body: Body }> {
    return this.#ask(path, { method: 'POST', body: JSON.stringify(body), headers: { 'content-type': 'application/json' } })
  }

  /** As text: an export. */
  async text (path: string): Promise<string> {
    const response = await fetch(`${this.#url}/api/v1${path}`, { headers: { authorization: `Bearer ${this.#token}` } })
    assert.equal(response.status, 200, path)
    return response.text()
  }

  async unknown (): Promise<Row[]> {
    return (await this.get('/records?state=indeterminate&limit=500&order=oldest')).records as Row[]
  }

  async #ask (path: string, init: RequestInit = {}): Promise<{ readonly status: number, readonly body: Body }> {
    const headers = { authorization: `Bearer ${this.#token}`, ...init.headers as Record<string, string> }
    const response = await fetch(`${this.#url}/api/v1${path}`, { ...init, headers })
    return { status: response.status, body: await response.json() as Body }
  }
}

function answered (path: string, { status, body }: { readonly status: number, readonly body: Body }): Body {
  assert.equal(status, 200, `${path}: ${JSON.stringify(body)}`)
  return body
}

/** Clients back off. Without a pause they would have a processor for themselves. */
const PAUSE_MS = 50

/** Clients that retry until they have an answer that is not "unknown". */
export class Retries {
  readonly answers = new Map<string, Called>()
  readonly #gateways: readonly ProcessGateway[]
  readonly #keys: ReadonlySet<string>
  #ended = false

  /** Each round of them asks the next one of the gateways. */
  constructor (gateways: readonly ProcessGateway[], keys: readonly string[]) {
    this.#gateways = gateways
    this.#keys = new Set(keys)
  }

  async run (): Promise<void> {
    for (let round = 0; !this.#ended && this.answers.size < this.#keys.size; round++) {
      const gateway = this.#gateways[round % this.#gateways.length] as ProcessGateway
      for (const key of this.#keys) {
        if (this.answers.has(key) || this.#ended) continue
        const answer = await ask(gateway, key)
        if (answer.headers['idempotency-status'] === 'indeterminate') assert.equal(answer.json.code, 'outcome-unknown')
        else this.answers.set(key, answer)
        await new Promise((resolve) => { setTimeout(resolve, PAUSE_MS) })
      }
    }
  }

  end (): void { this.#ended = true }
}

export async function ask (gateway: ProcessGateway, key: string): Promise<Called> {
  return call(gateway.url, '/things', { headers: { 'Idempotency-Key': key }, body: key })
}
