/**
 * A real OpenID provider on loopback, with one client and any number of accounts. It signs in whoever the test says, without a page of its
 * own. Provider and client speak over real connections.
 */
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Provider } from 'oidc-provider'
import type { Configuration } from 'oidc-provider'
import { textOf } from './certificates.ts'
import type { Signed } from './certificates.ts'

export const CLIENT = { id: 'onceway', secret: 'the secret of the client, with - and _ and +' } as const

export type Claims = Readonly<Record<string, unknown>>

export interface OidcProviderOptions {
  readonly redirectUri: string
  /** Claims by account. `sub` is the account. */
  readonly accounts: Readonly<Record<string, Claims>>
  /** Where claims of scopes are: in the ID token too, or in the userinfo alone. */
  readonly claimsIn?: 'id-token' | 'userinfo'
  readonly clientAuth?: 'client_secret_basic' | 'client_secret_post' | 'none'
  /** A certificate for 127.0.0.1. Absent: without TLS. */
  readonly tls?: Signed
}

export interface OidcProvider {
  readonly issuer: string
  /** Who is at the browser. null: whoever is asked refuses. */
  account: string | null
  /** Paths that were asked for. */
  readonly seen: readonly string[]
  readonly close: () => Promise<void>
}

const SCOPE_CLAIMS = {
  openid: ['sub'],
  email: ['email', 'email_verified'],
  profile: ['name', 'preferred_username'],
  groups: ['groups']
}

export async function startOidcProvider (options: OidcProviderOptions): Promise<OidcProvider> {
  let handle: (request: IncomingMessage, response: ServerResponse) => void = () => {}
  const { tls } = options
  const listener = (request: IncomingMessage, response: ServerResponse): void => { handle(request, response) }
  const server = tls === undefined ? createServer(listener) : createTlsServer({ cert: textOf(tls.cert), key: textOf(tls.key) }, listener)
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve) })
  const issuer = `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`
  const provider = new Provider(issuer, configurationOf(options))
  const seen: string[] = []
  const made = { issuer, account: null as string | null, seen, close: async () => closed(server) }
  const callback = provider.callback()
  handle = (request, response) => {
    const path = request.url?.split('?')[0] ?? ''
    seen.push(path)
    if (!path.startsWith('/interaction/')) {
      void callback(request, response)
      return
    }
    const result = made.account === null ? { error: 'access_denied' } : { login: { accountId: made.account } }
    void provider.interactionFinished(request, response, result)
  }
  return made
}

function configurationOf (options: OidcProviderOptions): Configuration {
  const { redirectUri, accounts, claimsIn = 'userinfo', clientAuth = 'client_secret_basic' } = options
  return {
    clients: [{
      client_id: CLIENT.id,
      ...clientAuth === 'none' ? {} : { client_secret: CLIENT.secret },
      redirect_uris: [redirectUri],
      token_endpoint_auth_method: clientAuth
    }],
    claims: SCOPE_CLAIMS,
    scopes: Object.keys(SCOPE_CLAIMS),
    conformIdTokenClaims: claimsIn === 'userinfo',
    features: { devInteractions: { enabled: false } },
    pkce: { required: () => true },
    cookies: { keys: ['of the test'] },
    findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
    // Nobody is asked for a consent.
    loadExistingGrant: async ({ oidc }) => {
      const { client, session } = oidc
      if (client === undefined || session?.accountId === undefined) return undefined
      const grant = new oidc.provider.Grant({ clientId: client.clientId, accountId: session.accountId })
      grant.addOIDCScope(Object.keys(SCOPE_CLAIMS).join(' '))
      await grant.save()
      return grant
    }
  }
}

async function closed (server: Server): Promise<void> {
  server.closeAllConnections()
  if (server.listening) await new Promise((resolve) => { server.close(resolve) })
}
