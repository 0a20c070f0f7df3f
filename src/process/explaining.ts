/** What an explanation reads besides the stores: compiled routes, trusted proxies, and how tokens are verified. */
import type { Config } from '../config/config.ts'
import { PeerTrust } from '../http/shared/peer.ts'
import { JoseVerifier } from '../identity/jwt.ts'
import type { OperationContext } from '../operator/context.ts'
import type { ExplainContext } from '../operator/explain/explain.ts'
import type { TokenVerifier } from '../ports/tokens.ts'
import { compileRoutes } from '../routing/match.ts'
import { SYSTEM_CLOCK } from './clock.ts'

export function explainingOf (config: Config, tokens: TokenVerifier, marksOf: ExplainContext['marksOf']): OperationContext['explaining'] {
  const peers = new PeerTrust(config.trustProxies)
  return {
    routes: config.routes,
    matcher: compileRoutes(config.routes),
    trusts: (address) => peers.trusts(address),
    clock: SYSTEM_CLOCK,
    tokens,
    marksOf
  }
}

/** For a command, which logs nothing and sees no marks. */
export function commandExplaining (config: Config): OperationContext['explaining'] {
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  return explainingOf(config, new JoseVerifier({ clock: SYSTEM_CLOCK, log }), () => null)
}
