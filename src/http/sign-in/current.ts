/** What follows from the configuration that runs now: keys, tokens, proxies and the provider. A reload replaces what it changes. */
import { randomBytes } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { AdminAuthConfig, Config, OidcConfig } from '../../config/config.ts'
import { ADMIN_TOKEN_NAME, hashOf } from '../../config/operator-tokens.ts'
import type { TokenEntry } from '../../config/operator-tokens.ts'
import { policyFingerprint } from '../../identity/oidc-claims.ts'
import type { OidcClient } from '../../identity/oidc.ts'
import { Seal } from '../../identity/seal.ts'
import { TokensFile } from '../../identity/tokens-file.ts'
import type { Clock } from '../../ports/clock.ts'
import type { Log } from '../../ports/telemetry.ts'
import { PeerTrust } from '../shared/peer.ts'
import type { SignInMethods } from './authenticated.ts'

/** The part of the configuration that counts here. */
export type SignInConfig = Pick<Config, 'admin' | 'trustProxies'>

export interface CurrentOptions {
  /** Read anew for every request, because a reload changes it. */
  readonly config: () => SignInConfig
  readonly clock: Pick<Clock, 'monotonicMs' | 'wallMs'>
  readonly log: Log
}

/** As many as a configured key should have. */
const OWN_KEY_BYTES = 32

export class Current {
  readonly admin: Config['admin']
  readonly seal: Seal
  /** Of `proxy.from`: whose headers say who somebody is. */
  readonly vouching: PeerTrust
  /** Of these and of `trustProxies`: who names the address of a client. */
  readonly peers: PeerTrust
  /** null: without a provider. */
  readonly oidcFingerprint: string | null
  readonly #file: TokensFile | null
  readonly #adminToken: readonly TokenEntry[]

  constructor ({ admin, trustProxies }: SignInConfig, seal: Seal, file: TokensFile | null) {
    const { token, auth: { oidc, proxy } } = admin
    this.admin = admin
    this.seal = seal
    this.vouching = new PeerTrust(proxy?.from ?? [])
    this.peers = new PeerTrust([...trustProxies, ...proxy?.from ?? []])
    this.oidcFingerprint = oidc === null ? null : policyFingerprint(oidc)
    this.#file = file
    this.#adminToken = token === null ? [] : [{ name: ADMIN_TOKEN_NAME, role: 'admin', hash: hashOf(token) }]
  }

  get auth (): AdminAuthConfig {
    return this.admin.auth
  }

  get methods (): SignInMethods {
    const { token, auth: { tokensFile, oidc, proxy } } = this.admin
    return { token: token !== null || tokensFile !== null, oidc: oidc !== null, proxy: proxy !== null }
  }

  async tokens (): Promise<readonly TokenEntry[]> {
    return [...this.#adminToken, ...await this.#file?.entries() ?? []]
  }
}

/** Keeps what a reload did not change: the tokens that were read, the metadata of the provider, the key of this process. */
export class CurrentKeeper {
  readonly #options: CurrentOptions
  readonly #ownKey = randomBytes(OWN_KEY_BYTES)
  #config: SignInConfig | null = null
  #current: Current | null = null
  #file: TokensFile | null = null
  #oidc: { readonly policy: OidcConfig, readonly client: Promise<OidcClient> } | null = null

  constructor (options: CurrentOptions) {
    this.#options = options
  }

  get (): Current {
    const config = this.#options.config()
    if (this.#current === null || config !== this.#config) {
      this.#config = config
      const { sessionKey, tokensFile } = config.admin.auth
      if (this.#file?.path !== tokensFile) this.#file = tokensFile === null ? null : new TokensFile(tokensFile, this.#options)
      this.#current = new Current(config, new Seal(sessionKey ?? this.#ownKey), this.#file)
    }
    return this.#current
  }

  /** The library is loaded with the first sign-in, because most gateways have no provider. */
  async oidc (policy: OidcConfig): Promise<OidcClient> {
    if (this.#oidc === null || !isDeepStrictEqual(this.#oidc.policy, policy)) {
      const loaded = import('../../identity/oidc.ts').then((library) => new library.OidcClient(policy, this.#options))
      this.#oidc = { policy, client: loaded }
    }
    return this.#oidc.client
  }
}
