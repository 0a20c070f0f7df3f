/**
 * Signs operators in with OpenID Connect: the authorization code flow with PKCE, by openid-client. Only a configuration with `oidc` loads
 * this file. Nothing of the provider is kept but its metadata and its keys.
 */
import { isDeepStrictEqual } from 'node:util'
import * as client from 'openid-client'
import { Agent, fetch } from 'undici'
import type { OidcConfig } from '../config/config.ts'
import type { Role } from '../core/operator/roles.ts'
import type { Clock } from '../ports/clock.ts'
import type { Log } from '../ports/telemetry.ts'
import { groupsOf, nameOf, roleOf } from './oidc-claims.ts'
import type { Claims } from './oidc-claims.ts'

/** Of each request to the provider. A person waits for it. */
const TIMEOUT_S = 5
/** Metadata, keys, tokens and userinfo are far smaller. */
const ANSWER_BYTES_MAX = 1024 ** 2
/** Providers change their endpoints and say so in their metadata. */
const METADATA_MAX_AGE_MS = 60 * 60_000
/** After a failure the next sign-ins fail at once for so long, so that no queue of browsers waits for a provider that hangs. */
const FAILED_FOR_MS = 5_000
/** Clocks differ. */
const CLOCK_TOLERANCE_S = 30
/** An error of the provider is text from outside. */
const ERROR_CHARS_MAX = 200

/** What a browser keeps between the two halves of a sign-in. */
export interface Begun { readonly state: string, readonly nonce: string, readonly verifier: string }

export interface SignedIn { readonly name: string, readonly role: Role }

/** unavailable: the provider is at fault or away. refused: it, or the configuration, does not let this person in. expired: start again. */
export class OidcFault extends Error {
  readonly kind: 'unavailable' | 'refused' | 'expired'

  /** `sentence`: for the person who signs in. `cause`: for the log. */
  constructor (kind: OidcFault['kind'], sentence: string, cause?: unknown) {
    super(sentence, { cause })
    this.kind = kind
  }
}

export interface OidcOptions { readonly clock: Pick<Clock, 'monotonicMs'>, readonly log: Log }

export class OidcClient {
  readonly #policy: OidcConfig
  readonly #options: OidcOptions
  readonly #ask: client.CustomFetch
  #found: { readonly configuration: Promise<client.Configuration>, readonly atMs: number } | null = null
  #failed: { readonly error: unknown, readonly atMs: number } | null = null

  constructor (policy: OidcConfig, options: OidcOptions) {
    this.#policy = policy
    this.#options = options
    // Sign-ins are rare, so no connection is kept.
    const dispatcher = new Agent({
      pipelining: 0,
      maxResponseSize: ANSWER_BYTES_MAX,
      ...policy.ca !== null && { connect: { ca: policy.ca } }
    })
    this.#ask = async (url, init) => await fetch(url, { ...init, dispatcher } as Parameters<typeof fetch>[1]) as unknown as Response
  }

  /** @throws OidcFault */
  async begin (redirectUri: string): Promise<Begun & { readonly url: URL }> {
    const configuration = await this.#configuration()
    const begun = { state: client.randomState(), nonce: client.randomNonce(), verifier: client.randomPKCECodeVerifier() }
    const url = client.buildAuthorizationUrl(configuration, {
      redirect_uri: redirectUri,
      scope: this.#policy.scopes.join(' '),
      state: begun.state,
      nonce: begun.nonce,
      code_challenge: await client.calculatePKCECodeChallenge(begun.verifier),
      code_challenge_method: 'S256'
    })
    return { ...begun, url }
  }

  /** `callback`: the address that the provider has sent the browser to. @throws OidcFault */
  async finish (callback: URL, { state, nonce, verifier }: Begun): Promise<SignedIn> {
    if (!isDeepStrictEqual(callback.searchParams.getAll('state'), [state])) {
      throw new OidcFault('expired', 'This answer of the identity provider does not belong to your sign-in. Start again.')
    }
    const configuration = await this.#configuration()
    try {
      const tokens = await client.authorizationCodeGrant(configuration, callback, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true
      })
      const claims: Claims = { ...tokens.claims() }
      return this.#operator(await this.#sources(configuration, claims, tokens.access_token))
    } catch (error) {
      throw error instanceof OidcFault ? error : this.#faultOf(error)
    }
  }

  /** The userinfo is asked for only if the ID token lacks what is needed. */
  async #sources (configuration: client.Configuration, claims: Claims, accessToken: string): Promise<readonly Claims[]> {
    const { nameClaim } = this.#policy
    const mailbox = claims.email !== undefined && claims.email_verified !== undefined
    const named = nameClaim === null ? mailbox : nameOf(this.#policy, [claims]) !== null
    const enough = named && groupsOf(this.#policy, [claims]) !== null
    if (enough || configuration.serverMetadata().userinfo_endpoint === undefined) return [claims]
    return [claims, { ...await client.fetchUserInfo(configuration, accessToken, String(claims.sub)) }]
  }

  #operator (sources: readonly Claims[]): SignedIn {
    const name = nameOf(this.#policy, sources)
    if (name === null) {
      throw new OidcFault('refused', `The identity provider sent no name that can be used (${this.#policy.nameClaim ?? 'email, preferred_username, sub'}).`)
    }
    const groups = groupsOf(this.#policy, sources)
    const role = roleOf(groups ?? [], this.#policy.roles)
    if (role !== null) return { name, role }
    throw new OidcFault('refused', groups === null
      ? `The identity provider sent no groups of yours (${this.#policy.groupsClaim}), so you have no role here.`
      : 'None of your groups has a role here.')
  }

  async #configuration (): Promise<client.Configuration> {
    const nowMs = this.#options.clock.monotonicMs()
    if (this.#failed !== null && nowMs - this.#failed.atMs < FAILED_FOR_MS) throw unavailable(this.#failed.error)
    if (this.#found === null || nowMs - this.#found.atMs >= METADATA_MAX_AGE_MS) {
      this.#found = { configuration: this.#discover(), atMs: nowMs }
    }
    try {
      const configuration = await this.#found.configuration
      this.#failed = null
      return configuration
    } catch (error) {
      this.#found = null
      throw unavailable(error)
    }
  }

  async #discover (): Promise<client.Configuration> {
    const { issuer, clientId, clientSecret, clientAuth } = this.#policy
    const url = new URL(issuer)
    const auth = clientSecret === null
      ? client.None()
      : clientAuth === 'post' ? client.ClientSecretPost(clientSecret) : client.ClientSecretBasic(clientSecret)
    try {
      return await client.discovery(url, clientId, { [client.clockTolerance]: CLOCK_TOLERANCE_S }, auth, {
        [client.customFetch]: this.#ask,
        timeout: TIMEOUT_S,
        // The library checks the signature of an ID token only if it is told to.
        execute: [client.enableNonRepudiationChecks, ...url.protocol === 'http:' ? [client.allowInsecureRequests] : []]
      })
    } catch (error) {
      this.#failed = { error, atMs: this.#options.clock.monotonicMs() }
      this.#noteUnavailable(error)
      throw error
    }
  }

  #faultOf (error: unknown): OidcFault {
    if (error instanceof client.AuthorizationResponseError || error instanceof client.ResponseBodyError) {
      return new OidcFault('refused', `The identity provider refused the sign-in: ${codeOf(error.error)}.`, error)
    }
    this.#noteUnavailable(error)
    return unavailable(error)
  }

  #noteUnavailable (error: unknown): void {
    this.#options.log.warn(
      { event: 'oidc-unavailable', issuer: this.#policy.issuer, error: textOf(error) },
      'the identity provider cannot be used; operators can sign in with tokens alone'
    )
  }
}

function unavailable (error: unknown): OidcFault {
  return new OidcFault('unavailable', 'The identity provider cannot be reached, or its answer is wrong. Try again, or use a token.', error)
}

/** A registered code (RFC 6749 4.1.2.1), and no other text. */
function codeOf (text: string): string {
  return /^[a-z_]{1,64}$/.test(text) ? text : 'an unknown error'
}

/** The reason is often in the cause alone. A provider that refuses the client names its reason in a challenge. */
function textOf (error: unknown): string {
  const texts = error instanceof client.WWWAuthenticateChallengeError ? error.cause.map(({ parameters }) => parameters.error ?? '') : []
  for (let each = error; each instanceof Error && texts.length < 3; each = each.cause) texts.push(each.message)
  return texts.filter((text) => text !== '').join(': ').slice(0, ERROR_CHARS_MAX)
}
