/** A real server with the sign-in of operators, and a browser that is a cookie jar. */
import { request as send } from 'node:http'
import type { TestContext } from 'node:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify from 'fastify'
import { load } from '../../../src/config/load.ts'
import { hashOf, tokenLine } from '../../../src/config/operator-tokens.ts'
import type { Role } from '../../../src/core/operator/roles.ts'
import type { LogFields } from '../../../src/ports/telemetry.ts'
import type { SignInConfig } from '../../../src/http/sign-in/current.ts'
import { createSignIn } from '../../../src/http/sign-in/sign-in.ts'
import { makeDirectory } from '../../harness/directory.ts'
import { ManualClock } from '../../harness/manual-clock.ts'

export const KEY = 'the key of all sessions in this test'
/** As `onceway token` makes them. */
export const TOKENS = { ann: `ow_${'a'.repeat(43)}`, bob: `ow_${'b'.repeat(43)}`, eve: `ow_${'e'.repeat(43)}` } as const

export interface Answer {
  readonly status: number
  readonly body: string
  readonly location: string | undefined
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

export interface Asked {
  readonly method?: string
  /** A list keeps lines of one name apart. */
  readonly headers?: Readonly<Record<string, string | string[]>>
  readonly form?: Readonly<Record<string, string>>
  readonly localAddress?: string
}

/** With one connection for each request. A list of headers is what fetch cannot send. */
export async function ask (url: string, { method = 'GET', headers = {}, form, localAddress }: Asked = {}): Promise<Answer> {
  const body = form === undefined ? '' : new URLSearchParams(form).toString()
  const type = {
    ...form !== undefined && { 'content-type': 'application/x-www-form-urlencoded' },
    ...method === 'POST' && { 'content-length': String(body.length) }
  }
  // As a flat list, Node sends each line as it is.
  const lines = Object.entries({ host: new URL(url).host, connection: 'close', ...type, ...headers })
    .flatMap(([name, value]) => [value].flat().flatMap((each) => [name, each]))
  return new Promise((resolve, reject) => {
    const asked = send(url, { method, agent: false, headers: lines, ...localAddress !== undefined && { localAddress } })
    asked.on('error', reject)
    asked.on('response', (response) => {
      const chunks: Buffer[] = []
      response.on('error', reject)
      response.on('data', (chunk: Buffer) => { chunks.push(chunk) })
      response.on('end', () => {
        resolve({
          status: response.statusCode ?? 0,
          body: Buffer.concat(chunks).toString(),
          location: response.headers.location,
          headers: response.headers
        })
      })
    })
    asked.end(body)
  })
}

/** Keeps cookies by host, and follows redirects only when it is told to. */
export class Browser {
  readonly cookies = new Map<string, string>()

  async ask (url: string, asked: Asked = {}): Promise<Answer> {
    const { host, origin } = new URL(url)
    const own = Array.from(this.cookies).filter(([name]) => name.startsWith(`${host} `))
    const cookie = own.map(([name, value]) => `${name.slice(host.length + 1)}=${value}`).join('; ')
    const said = asked.method === 'POST' ? { origin, 'sec-fetch-site': 'same-origin' } : {}
    const answer = await ask(url, { ...asked, headers: { ...cookie !== '' && { cookie }, ...said, ...asked.headers } })
    for (const line of [answer.headers['set-cookie'] ?? []].flat()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? []
      if (/Max-Age=0|Expires=Thu, 01 Jan 1970/i.test(line)) this.cookies.delete(`${host} ${name}`)
      else this.cookies.set(`${host} ${name}`, value)
    }
    return answer
  }

  /** Follows redirects up to an address that `until` matches, and does not ask for that one. */
  async follow (url: string, until: RegExp): Promise<string> {
    for (let at = url, hops = 0; hops < 10; hops++) {
      if (until.test(at)) return at
      const { location, status, body } = await this.ask(at)
      if (location === undefined) throw new Error(`${at} answered ${status}: ${body}`)
      at = new URL(location, at).href
    }
    throw new Error(`${url} redirects without an end`)
  }
}

export interface World {
  readonly url: string
  readonly clock: ManualClock
  readonly logged: Array<LogFields & { readonly level: string, readonly message: string }>
  readonly browser: Browser
  /** Takes another configuration, as a reload does. */
  readonly reload: (admin: string) => void
  readonly writeTokens: (text: string) => void
  /** Who the browser, or a request with these headers, is. */
  readonly who: (asked?: Asked) => Promise<WhoAnswer>
}

export interface WhoAnswer {
  readonly kind: string
  readonly identity?: { readonly name: string, readonly via: string, readonly role: Role }
  readonly ambient?: boolean
  readonly csrfToken?: string | null
  readonly expiresAtMs?: number | null
  readonly status?: number
  readonly reason?: string
  readonly retryAfterS?: number
}

export const TOKEN_LINES = [
  tokenLine({ name: 'ann', role: 'admin', hash: hashOf(TOKENS.ann) }),
  tokenLine({ name: 'bob', role: 'viewer', hash: hashOf(TOKENS.bob) })
].join('\n')

/** `admin`: the flow map of the admin block. `tokens` in it is the file of tokens. `listen`: an address of this machine. */
export async function startSignIn (t: TestContext, admin: string, { listen = '127.0.0.1', port = 0 } = {}): Promise<World> {
  const directory = makeDirectory('sign-in')
  t.after(() => { directory.remove() })
  const writeTokens = (text: string): void => { writeFileSync(join(directory.path, 'tokens'), text) }
  writeTokens(TOKEN_LINES)
  const configOf = (block: string): SignInConfig => {
    const file = join(directory.path, 'onceway.yaml')
    writeFileSync(file, `version: 1\nadmin: { ${block} }\nupstreams: { a: { url: "http://127.0.0.1:1" } }\nroutes: [{ match: { path: "/*" }, upstream: a }]\n`)
    return load(file, { env: {} }).config
  }
  let config = configOf(admin)
  const clock = new ManualClock()
  const logged: World['logged'] = []
  const at = (level: string) => (fields: LogFields, message: string): void => { logged.push({ ...fields, level, message }) }
  const signIn = createSignIn({
    config: () => config,
    clock,
    log: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') },
    page: ({ methods, error, next }) => JSON.stringify({ methods, error, next })
  })
  const server = Fastify({ exposeHeadRoutes: true, forceCloseConnections: true, bodyLimit: 1024 })
  await server.register(signIn.plugin)
  server.get('/who', async (request) => signIn.authenticate(request))
  server.post('/change', async (request, reply) => {
    const who = await signIn.authenticate(request)
    if (who.kind !== 'operator') return reply.code(401).send(who)
    const wrong = signIn.checkCsrf(request, who, request.headers['x-csrf-token'])
    return wrong === null ? reply.send({ changed: true }) : reply.code(403).send({ wrong })
  })
  const url = await server.listen({ host: listen, port })
  t.after(async () => { await server.close() })
  const browser = new Browser()
  return {
    url,
    clock,
    logged,
    browser,
    reload: (block) => { config = configOf(block) },
    writeTokens,
    who: async (asked) => JSON.parse((await browser.ask(`${url}/who`, asked)).body) as WhoAnswer
  }
}

export function bearer (token: string): Asked {
  return { headers: { authorization: `Bearer ${token}` } }
}

/** The page of the world, read again. */
export function pageOf ({ body }: Answer): { readonly methods: object, readonly error: string | null, readonly next: string } {
  return JSON.parse(body) as ReturnType<typeof pageOf>
}
